//go:build tools

// Package tools pins what tests build: go.mod and go.sum beside it name every byte.
// Both operators want controller-runtime 0.22, which the newer ones no longer compile against.
package tools

import (
	_ "github.com/ray-project/kuberay/ray-operator"
	_ "sigs.k8s.io/lws/cmd"
)
