// SPDX-License-Identifier: MIT

// Says what Grafana's own description of a dashboard finds wrong with a file.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	// What the dashboard uses: other panels and sources would not be understood.
	runtime := cog.NewRuntime()
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	raw, err := os.ReadFile(os.Args[1])
	end(err)
	var board dashboard.Dashboard
	end(board.UnmarshalJSONStrict(raw))
	end(board.Validate())
}

// Both methods may return a list without an error in it.
func end(err error) {
	if list, ok := err.(cog.BuildErrors); err != nil && (!ok || len(list) > 0) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
