#include <algorithm>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/trace/error.h"

namespace mptune {
namespace {

// Stages that `device` runs, ascending.
std::vector<int> stages_on(const Plan& plan, int device) {
  std::vector<int> found;
  for (int s = 0; s < plan.num_stages(); ++s) {
    const std::vector<int>& devices = plan.stages[static_cast<std::size_t>(s)].devices;
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) found.push_back(s);
  }
  return found;
}

std::vector<int> microbatches_on(const Plan& plan, int stage, int device) {
  std::vector<int> found;
  for (int i = 0; i < plan.num_microbatches(); ++i) {
    if (device_of(plan.stages[static_cast<std::size_t>(stage)], i) == device) found.push_back(i);
  }
  return found;
}

// Ordering all actions by (stage, micro-batch) forward and (last stage first, micro-batch) backward respects every dependency, so rows
// that are parts of that order cannot block each other.
std::vector<Action> all_forward_then_all_backward(const Plan& plan, int device) {
  std::vector<Action> row;
  std::vector<int> stages = stages_on(plan, device);
  for (const int s : stages) {
    for (const int i : microbatches_on(plan, s, device)) row.push_back({s, ActionKind::forward, i});
  }
  std::reverse(stages.begin(), stages.end());
  for (const int s : stages) {
    for (const int i : microbatches_on(plan, s, device)) row.push_back({s, ActionKind::backward, i});
  }
  return row;
}

// Micro-batches that each replica of a stage holds: one on the last stage, and on every other stage one more than it takes to feed all
// replicas behind it. With equal replica counts this is the textbook's stages - s.
std::vector<int> warm_ups(const Plan& plan) {
  std::vector<int> held(plan.stages.size(), 1);
  for (std::size_t s = plan.stages.size(); s-- > 1;) {
    const int behind = held[s] * static_cast<int>(plan.stages[s].devices.size());
    const int replicas = static_cast<int>(plan.stages[s - 1].devices.size());
    held[s - 1] = (behind + replicas - 1) / replicas + 1;
  }
  return held;
}

std::vector<Action> one_forward_one_backward(const Plan& plan, int device, const std::vector<int>& held) {
  const std::vector<int> stages = stages_on(plan, device);
  if (stages.empty()) return {};
  const int s = stages.front();
  const std::vector<int> own = microbatches_on(plan, s, device);
  const std::size_t warm_up = std::min(own.size(), static_cast<std::size_t>(held[static_cast<std::size_t>(s)]));
  std::vector<Action> row;
  for (std::size_t i = 0; i < warm_up; ++i) row.push_back({s, ActionKind::forward, own[i]});
  for (std::size_t i = 0; i < own.size(); ++i) {
    row.push_back({s, ActionKind::backward, own[i]});
    if (i + warm_up < own.size()) row.push_back({s, ActionKind::forward, own[i + warm_up]});
  }
  return row;
}

void require_one_stage_per_device(const Plan& plan) {
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) {
    if (stages_on(plan, d).size() > 1)
      throw Error("schedule 1f1b puts one stage on a device, " + plan.devices[static_cast<std::size_t>(d)] + " has several", "1f1b",
                  "use gpipe, or as many devices as stages");
  }
}

}  // namespace

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"naive", "gpipe", "1f1b"};
  return names;
}

void make_schedule(Plan& plan, const std::string& name) {
  const std::vector<std::string>& names = schedule_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw Error("unknown schedule '" + name + "'", "schedule", "use naive, gpipe or 1f1b, or a file of actions");
  if (name == "naive" && plan.num_microbatches() != 1)
    throw Error("schedule naive runs the batch as one micro-batch, not " + std::to_string(plan.num_microbatches()), "naive",
                "use 1 micro-batch, or schedule gpipe or 1f1b");
  if (name == "1f1b") require_one_stage_per_device(plan);
  const std::vector<int> held = warm_ups(plan);
  plan.schedule = name;
  plan.actions.clear();
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d) {
    plan.actions.push_back(name == "1f1b" ? one_forward_one_backward(plan, d, held) : all_forward_then_all_backward(plan, d));
  }
}

}  // namespace mptune
