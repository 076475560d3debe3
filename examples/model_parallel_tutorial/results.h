#pragma once

#include <mptune/mptune.h>

#include <memory>
#include <string>
#include <vector>

#include "mptune/profiler/statistics/samples.h"

/// A plan that is measured in turn with the others.
struct Contender {
  std::string name;
  int split_size;  // 0: not pipelined
  mptune::Plan plan;
  std::unique_ptr<mptune::Pipeline> pipeline;
  mptune::Samples step_s;
};

/// Prints every contender's step, the curve's minimum and how the last contender, the tuner's choice, compares with it, and writes
/// FOLDER/NAME-bars.svg and FOLDER/NAME-curve.svg. The first contender is the single device, the second naive model parallel.
void show_results(const std::vector<Contender>& contenders, const std::string& name, const std::string& folder);
