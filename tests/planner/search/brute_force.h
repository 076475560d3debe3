#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "planner/plan/executable.h"
#include "planner/schedule/schedule_info.h"
#include "planner/search/joint/ranking.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/planner/search/spaces.h"

namespace mptune::testing {

inline double step(const Candidate& candidate) {
  return candidate.prediction.step_s;
}

/// Every plan of a space of equal devices one after another, with no bound and no order.
struct BruteForce {
  const SearchSpace& space;
  const CostModel& cost;
  std::vector<int> counts = {};
  std::vector<Candidate> all = {};     ///< that fit and can be executed, fastest first
  std::vector<Candidate> beyond = {};  ///< that fit and can't be executed
  std::int64_t smallest_excess = -1;

  [[nodiscard]] std::vector<std::int64_t> caps(std::size_t devices) const {
    return std::vector<std::int64_t>(devices, space.memory_bytes.empty() ? 0 : space.memory_bytes.front());
  }

  [[nodiscard]] std::int64_t excess(const Plan& plan) const {
    const auto peaks = cost.peak_bytes(plan);
    std::int64_t over = 0;
    for (std::size_t d = 0; d < peaks.size(); ++d)
      if (caps(peaks.size())[d] > 0) over = std::max(over, peaks[d] - caps(peaks.size())[d]);
    return over;
  }

  void add(const Plan& plan) {
    if (executable(plan, space.capabilities))
      all.push_back({plan, predict(plan, cost)});
    else if (space.look_beyond)
      beyond.push_back({plan, predict(plan, cost)});
  }

  // What does not fit recomputes any set of layers: the fastest that fits.
  void consider(Plan plan) {
    if (excess(plan) == 0) return add(plan);
    const Plan bare = plan;
    std::optional<Candidate> best;
    for (unsigned set = 1; set < 1u << cost.layers(); ++set) {
      Plan some = bare;
      for (Stage& stage : some.stages) {
        for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
          if ((set >> layer & 1) != 0) stage.recompute.layers.push_back(layer);
        if (!stage.recompute.layers.empty()) stage.recompute.mode = Recompute::Mode::some;
      }
      if (const std::int64_t over = excess(some); over > 0) {
        smallest_excess = smallest_excess < 0 ? over : std::min(smallest_excess, over);
        continue;
      }
      if (!executable(some, space.capabilities) && !space.look_beyond) continue;
      const Prediction prediction = predict(some, cost);
      if (!best || prediction.step_s < best->prediction.step_s) best = {some, prediction};
    }
    if (best) add(best->plan);
  }

  void schedule_all(Plan plan, int virtual_stages, const std::vector<std::string>& schedules) {
    for (const int m : counts) {
      std::size_t most = 0;
      for (const Stage& stage : plan.stages) most = std::max(most, stage.devices.size());
      if (as_index(m) < most) continue;
      plan.microbatch_sizes = split_evenly(space.batch, m);
      std::vector<Plan> of_one;  // with one micro-batch schedules have the same rows as others
      for (const std::string& schedule : schedules) {
        if (planner::schedule_info(schedule).one_microbatch && m > 1) continue;
        if (virtual_stages > 1) {
          const auto map = planner::stage_devices(schedule, static_cast<int>(plan.devices.size()), virtual_stages);
          for (std::size_t s = 0; s < map.size(); ++s) plan.stages[s].devices = {map[s]};
        }
        Plan made = plan;
        try {
          planner::schedule_plan(made, schedule, cost);
        } catch (const Error&) {
          continue;  // not for these stages
        }
        const auto same = [&](const Plan& other) { return other.actions == made.actions && other.stages == made.stages; };
        if (m == 1 && std::ranges::any_of(of_one, same)) continue;
        if (m == 1) of_one.push_back(made);
        consider(made);
      }
    }
  }

  void all_cuts(const std::vector<int>& replicas, int virtual_stages, const std::vector<std::string>& schedules) {
    const int stages = static_cast<int>(replicas.size()) * virtual_stages;
    std::vector<int> cuts;
    const std::function<void()> choose = [&] {
      if (static_cast<int>(cuts.size()) + 1 < stages) {
        for (int cut = cuts.empty() ? 1 : cuts.back() + 1; cut < cost.layers(); ++cut) {
          cuts.push_back(cut);
          choose();
          cuts.pop_back();
        }
        return;
      }
      Plan plan;
      int next = 0;
      for (int s = 0; s < stages; ++s) {
        const auto at = as_index(s);
        Stage stage{s == 0 ? 0 : cuts[at - 1], s + 1 == stages ? cost.layers() : cuts[at], {}, {}};
        for (int r = 0; virtual_stages == 1 && r < replicas[at]; ++r) stage.devices.push_back(next++);
        plan.stages.push_back(stage);
      }
      const std::size_t used = virtual_stages > 1 ? replicas.size() : as_index(next);
      plan.devices.assign(space.devices.begin(), space.devices.begin() + static_cast<std::ptrdiff_t>(used));
      schedule_all(plan, virtual_stages, schedules);
    };
    if (stages <= cost.layers()) choose();
  }

  // Counts from left to right that add up to `left`.
  void shares(int left, std::vector<int>& chosen, const std::function<void()>& use) {
    if (left == 0) return use();
    for (int count = 1; count <= left; ++count) {
      chosen.push_back(count);
      shares(left - count, chosen, use);
      chosen.pop_back();
    }
  }

  void run() {
    const int devices = static_cast<int>(space.devices.size());
    const std::vector<std::string> one = {"naive", "gpipe", "1f1b", "eager-1f1b", "zb1p", "zb2p"};
    const std::vector<std::string> two = {"interleaved", "looped-bfs", "zbv", "v-half", "v-min", "dualpipe-v"};
    for (const int m : counts) {
      for (const int replicas : std::set<int>{1, devices}) {
        if (m * replicas > space.batch) continue;
        PlanOptions options = options_of(space.devices, space.batch, cost.layers(), m == 1 && replicas == 1 ? "naive" : "1f1b");
        options.stages = 1;
        options.microbatches = m * replicas;
        if (replicas > 1) options.replicas = {replicas};
        consider(make_plan(options));
      }
    }
    for (int stages = 2; stages < devices; ++stages) all_cuts(std::vector<int>(as_index(stages), 1), 1, wanted(one));
    std::vector<int> chosen;
    shares(devices, chosen, [&] {
      if (chosen.size() > 1) all_cuts(chosen, 1, wanted(one));
    });
    if (devices > 1) all_cuts(std::vector<int>(as_index(devices), 1), 2, wanted(two));
    for (int v = 3; devices > 1 && v * devices <= cost.layers(); ++v)
      all_cuts(std::vector<int>(as_index(devices), 1), v, wanted({"interleaved", "looped-bfs"}));
    const auto by_step = [](const Candidate& a, const Candidate& b) { return a.prediction.step_s < b.prediction.step_s; };
    std::stable_sort(all.begin(), all.end(), by_step);
    std::stable_sort(beyond.begin(), beyond.end(), by_step);
  }

  [[nodiscard]] std::vector<std::string> wanted(std::vector<std::string> schedules) const {
    std::erase_if(schedules, [&](const std::string& name) {
      return !space.schedules.empty() && std::count(space.schedules.begin(), space.schedules.end(), name) == 0;
    });
    return schedules;
  }
};

/// Numbers of micro-batches that a search tries by itself.
inline std::vector<int> counts_of(int batch) {
  std::vector<int> counts;
  for (const int m : {1, 2, 3, 4, 6, 8, 12})
    if (m <= batch) counts.push_back(m);
  return counts;
}

}  // namespace mptune::testing
