#pragma once

#include <mptune/mptune.h>

#include <memory>
#include <string>
#include <vector>

#include "profiler/trace/statistics/samples.h"

/// A plan that is benchmarked interleaved with the others.
struct Contender {
  std::string name;
  int split_size;  // 0: not pipelined
  mptune::Plan plan;
  std::unique_ptr<mptune::Pipeline> pipeline;
  mptune::Samples step_s;
};

/// Prints every contender's step time, the curve's minimum, and how the tuner's choice compares with it. Writes FOLDER/NAME-bars.svg and
/// FOLDER/NAME-curve.svg. Order of the contenders: single device, naive model parallel, split sizes, the tuner's choice.
void show_results(const std::vector<Contender>& contenders, const std::string& name, const std::string& folder);
