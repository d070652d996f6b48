//go:build tools

// Package tools pins what the tests build: go.mod and go.sum beside it name every byte.
package tools

import _ "k8s.io/kubernetes/cmd/kubectl"
