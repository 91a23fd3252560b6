package cli

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plumb/bindings"
)

// deviceOptions say where a model is kept and computed.
type deviceOptions struct {
	devices     string
	gpuLayers   string
	tensorSplit string
	rpc         string
}

func (o *deviceOptions) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "device", Usage: "keep the model on `NAMES`, devices as llama.cpp names them (CUDA0,CUDA1) or CPU (default: every GPU and RPC server)", Destination: &o.devices},
		&cli.StringFlag{Name: "gpu-layers", Usage: "keep the last `N` layers, the head being one, on the devices and the others on the CPU (default: all)", Destination: &o.gpuLayers},
		&cli.StringFlag{Name: "tensor-split", Usage: "divide the layers among the devices as `SHARES`, such as 3,1 (default: by free memory)", Destination: &o.tensorSplit},
		&cli.StringFlag{Name: "rpc", Usage: "use the devices of the RPC servers `HOST:PORT,…` of llama.cpp too", Destination: &o.rpc},
	}
}

// apply checks the flags and puts them into the options.
func (o *deviceOptions) apply(options *bindings.ModelOptions) error {
	if o.devices != "" {
		options.Devices = strings.Split(o.devices, ",")
	}
	if o.rpc != "" {
		options.RPCServers = strings.Split(o.rpc, ",")
	}
	for _, server := range options.RPCServers {
		host, port, err := net.SplitHostPort(server)
		if n, portErr := strconv.Atoi(port); err != nil || host == "" || portErr != nil || n < 1 || n > math.MaxUint16 {
			return usageError("--rpc %q: an RPC server is HOST:PORT, several with commas between them", server)
		}
		// llama.cpp ends the process if nobody answers
		connection, err := net.DialTimeout("tcp", server, 10*time.Second)
		if err != nil {
			return fmt.Errorf("no RPC server answers at %s: start llama.cpp's rpc-server there (%w)", server, err)
		}
		connection.Close()
	}
	if o.gpuLayers != "" {
		n, err := strconv.ParseInt(o.gpuLayers, 10, 32)
		if err != nil || n < 0 {
			return usageError("--gpu-layers %q: a number of layers is not negative", o.gpuLayers)
		}
		layers := int(n)
		options.GPULayers = &layers
	}
	if o.tensorSplit == "" {
		return nil
	}
	sum := 0.0
	for _, part := range strings.Split(o.tensorSplit, ",") {
		share, err := strconv.ParseFloat(strings.TrimSpace(part), 32)
		if err != nil || !(share >= 0) || math.IsInf(share, 0) {
			return usageError("--tensor-split %q: shares are numbers from 0 on, with commas between them", o.tensorSplit)
		}
		sum += share
		options.TensorSplit = append(options.TensorSplit, float32(share))
	}
	if sum == 0 {
		return usageError("--tensor-split %q: no device gets anything", o.tensorSplit)
	}
	return nil
}
