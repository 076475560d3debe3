#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "profiler/base/index.h"

namespace mptune::testing {

/// Slow truth of idle devices that help, written from the rules and sharing no code with the simulator: jobs with what they need, clock
/// ticks. For profiles in whole nanoseconds without recomputation, shared media and devices that slow each other; actions only, no end of
/// step.
class HelpingOracle {
 public:
  /// `groups`: of each device; devices of one group help one another, those below 0 nobody.
  HelpingOracle(const Plan& plan, const CostModel& cost, std::vector<int> groups) : plan_(plan), cost_(cost), groups_(std::move(groups)) {
    for (std::size_t d = 0; d < plan.actions.size(); ++d) {
      std::map<std::pair<int, int>, int> before;  // jobs that make gradients, by stage and layer; -1: of all layers
      for (const Action& action : plan.actions[d]) rows_[d].push_back(add_action(static_cast<int>(d), action, before));
      rows_[d];  // devices without actions help, too
      free_[d] = 0;
    }
  }

  /// When the last action has ended.
  long long end_ns() {
    for (now_ = 0;; now_ = next_time()) {
      do {
        while (finish() || start_rows() || start_copies()) {
        }
      } while (choose());
      if (next_time() < 0) break;
    }
    long long last = 0;
    for (const Job& job : jobs_) last = std::max(last, job.end);
    return last;
  }

  [[nodiscard]] bool all_done() const {
    return std::ranges::all_of(jobs_, [](const Job& job) { return job.done; });
  }

 private:
  struct Job {
    Action action;
    int owner = 0;
    int layer = -1;
    long long work = 0;
    std::vector<std::tuple<ActionKind, int, int>> needs;  // kind, stage and micro-batch whose result has to be on this device
    int after = -1;                                       // a job
    bool begun = false;
    bool done = false;
    long long end = -1;
  };
  struct Transfer {
    std::tuple<ActionKind, int, int, int> what;  // and the device that gets it
    long long takes = 0;
    long long end = -1;
  };
  struct Item {
    std::vector<int> jobs;  // all of one action
  };

  static long long ns(double seconds) { return std::llround(seconds * 1e9); }
  [[nodiscard]] long long overhead(int d) const { return ns(cost_.action_seconds(d)); }
  [[nodiscard]] const Stage& stage(int s) const { return plan_.stages[as_index(s)]; }

  Item add_action(int d, const Action& action, std::map<std::pair<int, int>, int>& before) {
    const int samples = plan_.microbatch_sizes[as_index(action.microbatch)];
    const Stage& of = stage(action.stage);
    const bool shared = action.kind == ActionKind::backward_weight && groups_[as_index(d)] >= 0;
    Item item;
    Job whole;
    whole.action = action;
    whole.owner = d;
    const bool forward = action.kind == ActionKind::forward;
    const bool weight = action.kind == ActionKind::backward_weight;
    if (forward && action.stage > 0) whole.needs.emplace_back(ActionKind::forward, action.stage - 1, action.microbatch);
    if (!forward && !weight && action.stage + 1 < plan_.num_stages())
      whole.needs.emplace_back(ActionKind::backward, action.stage + 1, action.microbatch);
    for (int layer = of.last_layer - 1; layer >= of.first_layer; --layer) {
      const LayerTimes times = cost_.layer(d, layer, samples);
      const double seconds = forward                                      ? times.forward_s
                             : action.kind == ActionKind::backward        ? times.backward_s
                             : action.kind == ActionKind::backward_weight ? times.backward_weight_s
                                                                          : times.backward_input_s;
      if (!shared) {
        whole.work += ns(seconds);
        for (int i = action.microbatch + 1; i <= action.last_microbatch(); ++i)
          whole.work += ns(cost_.layer(d, layer, plan_.microbatch_sizes[as_index(i)]).backward_weight_s);
        continue;
      }
      if (ns(seconds) == 0 && !(layer == of.first_layer && item.jobs.empty())) continue;
      Job part = whole;
      part.layer = layer;
      part.work = 0;
      for (int i = action.microbatch; i <= action.last_microbatch(); ++i) {
        part.work += ns(cost_.layer(d, layer, plan_.microbatch_sizes[as_index(i)]).backward_weight_s);
        part.needs.emplace_back(ActionKind::backward, action.stage, i);
      }
      if (const auto last = before.find({action.stage, layer}); last != before.end()) part.after = last->second;
      if (const auto last = before.find({action.stage, -1}); last != before.end()) part.after = std::max(part.after, last->second);
      before[{action.stage, layer}] = static_cast<int>(jobs_.size());
      item.jobs.push_back(static_cast<int>(jobs_.size()));
      jobs_.push_back(part);
    }
    if (shared) return item;
    if (action.kind == ActionKind::backward) before[{action.stage, -1}] = static_cast<int>(jobs_.size());
    item.jobs.push_back(static_cast<int>(jobs_.size()));
    jobs_.push_back(whole);
    return item;
  }

  // Weight gradients may be computed by a device that has not got the data of their owner.
  bool arrived(const Job& job) const {
    return std::ranges::all_of(job.needs, [&](const auto& need) { return there_.contains(std::tuple_cat(need, std::tuple(job.owner))); }) &&
           (job.after < 0 || jobs_[as_index(job.after)].done);
  }

  bool finish() {
    bool any = false;
    for (const int j : begun_) {
      Job& job = jobs_[as_index(j)];
      if (job.done || job.end > now_) continue;
      job.done = any = true;
      if (job.layer < 0 && job.action.kind != ActionKind::backward_weight) publish(job);
    }
    for (auto& [link, queue] : links_) {
      if (queue.empty() || queue.front().end < 0 || queue.front().end > now_) continue;
      there_[queue.front().what] = true;
      queue.erase(queue.begin());
      any = true;
    }
    return any;
  }

  void publish(const Job& job) {
    const bool forward = job.action.kind == ActionKind::forward;
    const ActionKind kind = forward ? ActionKind::forward : ActionKind::backward;
    there_[{kind, job.action.stage, job.action.microbatch, job.owner}] = true;
    const int next = job.action.stage + (forward ? 1 : -1);
    if (next < 0 || next >= plan_.num_stages()) return;
    const int to = device_of(stage(next), job.action.microbatch);
    if (to == job.owner) return;
    const int cut = stage(std::max(next, job.action.stage)).first_layer;
    const auto bytes = cost_.boundary_bytes(cut, plan_.microbatch_sizes[as_index(job.action.microbatch)], !forward);
    const long long takes = ns(cost_.copy_seconds(job.owner, to, bytes));
    const bool sender_copies = cost_.copies().sender_copies(job.owner, to);
    if (sender_copies) free_[as_index(job.owner)] = now_ + takes;
    links_[{job.owner, to}].push_back({{kind, job.action.stage, job.action.microbatch, to}, takes, sender_copies ? now_ + takes : -1});
  }

  bool start_copies() {
    bool any = false;
    for (auto& [link, queue] : links_) {
      if (queue.empty() || queue.front().end >= 0) continue;
      queue.front().end = now_ + queue.front().takes;
      any = true;
    }
    return any;
  }

  bool start_rows() {
    bool any = false;
    for (auto& [d, row] : rows_) {
      while (free_[d] <= now_ && idle(d) && !row.empty()) {
        const std::vector<int>& jobs = row.front().jobs;
        if (jobs_[as_index(jobs.front())].layer >= 0) {
          if (!std::ranges::all_of(jobs, [&](int j) { return jobs_[as_index(j)].done; })) break;
        } else {
          if (!arrived(jobs_[as_index(jobs.front())])) break;
          begin(jobs.front(), d, overhead(static_cast<int>(d)));
        }
        row.erase(row.begin());
        any = true;
      }
    }
    return any;
  }

  bool idle(std::size_t d) const {
    const auto found = runs_.find(d);
    return found == runs_.end() || jobs_[as_index(found->second)].done;
  }

  void begin(int j, std::size_t d, long long fixed) {
    Job& job = jobs_[as_index(j)];
    job.begun = true;
    job.end = now_ + fixed + job.work;
    free_[d] = job.end;
    runs_[d] = j;
    begun_.push_back(j);
  }

  bool choose() {
    bool any = false;
    for (auto& [d, row] : rows_) {
      if (!idle(d) || free_[d] > now_ || groups_[d] < 0) continue;
      std::vector<int> open;
      const bool own_turn = !row.empty() && jobs_[as_index(row.front().jobs.front())].layer >= 0;
      for (int j = 0; j < static_cast<int>(jobs_.size()); ++j) {
        const Job& job = jobs_[as_index(j)];
        if (job.layer < 0 || job.begun || !arrived(job)) continue;
        const bool mine = own_turn ? std::ranges::count(row.front().jobs, j) > 0 : groups_[as_index(job.owner)] == groups_[d];
        if (mine) open.push_back(j);
      }
      if (open.empty()) continue;
      const auto worth = [&](int j) {
        const Job& job = jobs_[as_index(j)];
        const long long size = row.empty() ? -job.work : job.work;
        return std::tuple(as_index(job.owner) == d ? 0 : 1, size, job.action.stage, job.action.microbatch, -job.layer);
      };
      const int chosen = *std::ranges::min_element(open, {}, worth);
      const Job& job = jobs_[as_index(chosen)];
      const auto last = runs_.find(d);
      const bool same =
          last != runs_.end() && jobs_[as_index(last->second)].layer >= 0 && jobs_[as_index(last->second)].action == job.action;
      begin(chosen, d, same ? 0 : overhead(static_cast<int>(d)));
      any = true;
    }
    return any;
  }

  [[nodiscard]] long long next_time() const {
    long long next = -1;
    const auto consider = [&](long long end) {
      if (end > now_ && (next < 0 || end < next)) next = end;
    };
    for (const Job& job : jobs_)
      if (job.begun && !job.done) consider(job.end);
    for (const auto& [link, queue] : links_)
      if (!queue.empty()) consider(queue.front().end);
    return next;
  }

  const Plan& plan_;
  const CostModel& cost_;
  std::vector<int> groups_;
  std::vector<Job> jobs_;
  std::map<std::size_t, std::vector<Item>> rows_;
  std::map<std::size_t, long long> free_;
  std::map<std::size_t, int> runs_;
  std::vector<int> begun_;
  std::map<std::pair<int, int>, std::vector<Transfer>> links_;
  std::map<std::tuple<ActionKind, int, int, int>, bool> there_;
  long long now_ = 0;
};

}  // namespace mptune::testing
