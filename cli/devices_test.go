package cli

import (
	"encoding/json"
	"net"
	"testing"
)

func TestDevicesThatAreRefused(t *testing.T) {
	ownCache(t)
	model := tinyModelFile(t, tinyModel{seed: 1})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	for _, test := range []struct {
		status int
		flag   string
		value  string
		want   []string
	}{
		{exitUsage, "--gpu-layers", "-1", []string{`--gpu-layers "-1"`, "not negative"}},
		{exitUsage, "--gpu-layers", "all", []string{`--gpu-layers "all"`}},
		{exitUsage, "--tensor-split", "1,x", []string{`--tensor-split "1,x"`}},
		{exitUsage, "--tensor-split", "0,0", []string{"no device gets anything"}},
		{exitFailed, "--tensor-split", "1,1", []string{"2 shares of a tensor split for ", " devices beside the CPU"}},
		{exitUsage, "--rpc", "here", []string{`--rpc "here"`, "HOST:PORT"}},
		{exitUsage, "--rpc", "here:0", []string{`--rpc "here:0"`}},
		{exitUsage, "--rpc", ":50052", []string{`--rpc ":50052"`}},
		{exitFailed, "--rpc", closed, []string{"no RPC server answers at " + closed, "start llama.cpp's rpc-server there"}},
		{exitFailed, "--device", "CPU,TPU7", []string{"no device is called TPU7; there are: ", "CPU"}},
	} {
		_, _, err := plumb("model", "info", "--model", model, test.flag, test.value)
		refused(t, err, test.status, test.want...)
	}
}

// The flags reach the model, and the run says what was used.
func TestDevices(t *testing.T) {
	ownCache(t)
	model, data := tinyModelFile(t, tinyModel{seed: 1}), bbqItems(t, 4)
	dir := newRun(t)
	mustPlumb(t, auditBBQ(model, dir, "--data", data, "--device", "CPU", "--gpu-layers", "0")...)
	if run, _ := readRun(t, dir); run.Device != "CPU" {
		t.Errorf("device %q", run.Device)
	}
	out, _ := mustPlumb(t, "model", "info", "--json", "--device", "CPU", model)
	var info struct{ Devices string }
	if err := json.Unmarshal([]byte(out), &info); err != nil || info.Devices != "CPU" {
		t.Errorf("%v, devices %q", err, info.Devices)
	}
}
