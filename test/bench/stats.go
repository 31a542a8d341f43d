package main

import (
	"math/rand/v2"
	"slices"
)

// Interval is an estimate with its 95 % confidence interval.
type Interval struct {
	Is   float64 `json:"is"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// resamples is the number of bootstrap samples from which an interval is computed.
const resamples = 2000

// estimate returns the value of f for the samples, with the confidence interval of the percentile bootstrap. The same
// samples always give the same interval. A confidence interval from only one or two turns is not reliable.
func estimate(f func(samples ...[]float64) float64, samples ...[]float64) Interval {
	random := rand.New(rand.NewPCG(38, 38))
	drawn := make([][]float64, len(samples))
	for i, s := range samples {
		drawn[i] = make([]float64, len(s))
	}
	all := make([]float64, resamples)
	for n := range all {
		for i, s := range samples {
			for j := range s {
				drawn[i][j] = s[random.IntN(len(s))]
			}
		}
		all[n] = f(drawn...)
	}
	slices.Sort(all)
	return Interval{f(samples...), all[resamples/40], all[resamples-1-resamples/40]}
}

// The function `median` returns the median of the values. There must be at least one value.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func medianOf(s ...[]float64) float64 { return median(s[0]) }

// The function `ratio` divides the median of the first list of samples by the median of the second list.
func ratio(s ...[]float64) float64 { return median(s[0]) / median(s[1]) }

// ratioOfDifferences subtracts the third median from the first two medians, and returns the ratio of the two
// differences.
func ratioOfDifferences(s ...[]float64) float64 {
	return (median(s[0]) - median(s[2])) / (median(s[1]) - median(s[2]))
}

// slowest returns the largest value divided by the median value.
func slowest(s ...[]float64) float64 { return slices.Max(s[0]) / median(s[0]) }
