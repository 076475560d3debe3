#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "profiler/device/list/device_list.h"
#include "profiler/measure/measure.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/samples.h"

namespace mptune::testing {

inline constexpr const char* kTiny = "transformer:d=16,layers=1,heads=2,seq=4,vocab=8";

inline profiler::MeasureOptions options_for(const std::string& devices, int batch) {
  profiler::MeasureOptions options;
  options.devices = parse_devices(devices);
  options.batch = batch;
  options.budget_s = 1;
  return options;
}

/// The first cores there are, two where the machine has two.
inline std::string cpu_list() {
  const std::vector<int> cores = available_cores();
  return "cpu:" + std::to_string(cores[0]) + (cores.size() > 1 ? ",cpu:" + std::to_string(cores[1]) : "");
}

inline Profile measure_tiny(const profiler::MeasureOptions& options) {
  const Model model = load_model(kTiny, "", 0).model;
  return profiler::measure_profile(model, synthetic_batch(model.sample(), options.batch, 0), options);
}

inline void expect_all_positive(const Samples& samples, const std::string& what) {
  EXPECT_GE(samples.size(), 1U) << what;
  for (const Sample& sample : samples.values) EXPECT_TRUE(std::isfinite(sample.value) && sample.value > 0) << what;
}

}  // namespace mptune::testing
