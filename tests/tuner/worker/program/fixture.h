#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "planner/search/make_plan.h"
#include "profiler/device/list/device_list.h"
#include "tuner/worker/program/requests.h"

namespace mptune::testing {

/// A folder of the test's own, and the replies of a worker that runs in this process.
class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() : folder_(std::filesystem::temp_directory_path() / ("mptune-worker-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~WorkerTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] tuner::Replies replies() {
    return [this](const tuner::Reply& reply) { replies_.push_back(reply); };
  }
  /// All replies of one kind, in order.
  template <typename Kind>
  [[nodiscard]] std::vector<Kind> all() const {
    std::vector<Kind> found;
    for (const tuner::Reply& reply : replies_)
      if (const auto* one = std::get_if<Kind>(&reply)) found.push_back(*one);
    return found;
  }
  void forget() { replies_.clear(); }

 private:
  std::filesystem::path folder_;
  std::vector<tuner::Reply> replies_;
};

/// At most `count` devices of one core each, as many as there are.
inline std::vector<std::string> core_names(std::size_t count) {
  std::vector<std::string> names;
  for (int core : available_cores())
    if (names.size() < count) names.push_back("cpu:" + std::to_string(core));
  return names;
}

inline tuner::TrainingSetup setup_for(const std::string& model, int batch, std::size_t devices = 2) {
  tuner::TrainingSetup setup;
  setup.model = model;
  setup.batch = batch;
  setup.devices = core_names(devices);
  return setup;
}

/// As many stages as the setup has devices.
inline Plan plan_for(const tuner::TrainingSetup& setup, int layers, int split_size, const std::string& schedule = "1f1b") {
  PlanOptions options;
  options.devices = setup.devices;
  options.batch = setup.batch;
  options.layers = layers;
  options.split_size = split_size;
  options.schedule = schedule;
  return make_plan(options);
}

}  // namespace mptune::testing
