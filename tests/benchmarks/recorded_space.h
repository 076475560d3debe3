#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "planner/search/make_plan.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/trace/store/store.h"

// A space of plans that was measured whole: a folder with profile.sqlite and plans.csv, a row per plan.
//     schedule,stages per device,idle devices help,micro-batches,cuts,steps in seconds
//     1f1b,1,0,8,4,0.0412 0.0409
namespace mptune::testing {

/// What tells a plan from the others of its space.
struct PlanChoice {
  std::string schedule;
  int virtual_stages = 1;
  bool idle_devices_help = false;
  int microbatches = 1;
  std::vector<int> cuts;
};

struct RecordedPlan {
  PlanChoice choice;
  std::vector<double> step_s;  ///< as measured, in order
};

inline PlanChoice choice_of(const Plan& plan) {
  PlanChoice choice{.schedule = plan.schedule,
                    .virtual_stages = plan.num_stages() / static_cast<int>(plan.devices.size()),
                    .idle_devices_help = plan.options.idle_devices_help,
                    .microbatches = plan.num_microbatches(),
                    .cuts = {}};
  for (std::size_t s = 1; s < plan.stages.size(); ++s) choice.cuts.push_back(plan.stages[s].first_layer);
  return choice;
}

/// The plan of a choice over all devices of the profile that `devices` names.
inline Plan plan_of(const PlanChoice& choice, const std::vector<std::string>& devices, int batch, const CostModel& cost) {
  PlanOptions options;
  options.devices = devices;
  options.batch = batch;
  options.layers = cost.layers();
  options.virtual_stages = choice.virtual_stages;
  options.cuts = choice.cuts;
  options.microbatches = choice.microbatches;
  options.schedule = choice.schedule;
  Plan plan = make_plan(options);
  planner::schedule_plan(plan, choice.schedule, cost);
  plan.options.idle_devices_help = choice.idle_devices_help;
  return plan;
}

inline void write_space(const std::string& folder, const Profile& profile, const std::vector<RecordedPlan>& plans) {
  std::filesystem::create_directories(folder);
  profiler::write_recording({.profile = profile}, folder + "/profile.sqlite", true);
  std::ofstream file(folder + "/plans.csv");
  file << "schedule,stages per device,idle devices help,micro-batches,cuts,steps in seconds\n";
  for (const RecordedPlan& plan : plans) {
    file << plan.choice.schedule << ',' << plan.choice.virtual_stages << ',' << plan.choice.idle_devices_help << ','
         << plan.choice.microbatches << ',';
    for (std::size_t i = 0; i < plan.choice.cuts.size(); ++i) file << (i > 0 ? " " : "") << plan.choice.cuts[i];
    for (std::size_t i = 0; i < plan.step_s.size(); ++i) file << (i > 0 ? " " : ",") << plan.step_s[i];
    file << '\n';
  }
}

template <class Value>
std::vector<Value> numbers_in(const std::string& text) {
  std::istringstream words(text);
  std::vector<Value> numbers;
  for (Value value; words >> value;) numbers.push_back(value);
  return numbers;
}

inline std::vector<RecordedPlan> read_plans(const std::string& folder) {
  std::ifstream file(folder + "/plans.csv");
  if (!file) throw Error("there is no recorded space", folder, "record one: benchmark_sweep MODEL ... FOLDER");
  std::vector<RecordedPlan> plans;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line, ',');
    if (cells.size() != 6) throw Error("a row has not 6 cells", folder + "/plans.csv", "record the space again");
    plans.push_back({.choice = {.schedule = cells[0],
                                .virtual_stages = std::stoi(cells[1]),
                                .idle_devices_help = cells[2] == "1",
                                .microbatches = std::stoi(cells[3]),
                                .cuts = numbers_in<int>(cells[4])},
                     .step_s = numbers_in<double>(cells[5])});
  }
  return plans;
}

}  // namespace mptune::testing
