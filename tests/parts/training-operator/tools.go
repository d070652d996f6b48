//go:build tools

// Package tools pins what tests build: go.mod and go.sum beside it name every byte.
// This operator is no longer developed and wants controller-runtime 0.19.
package tools

import _ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
