#include "planner/schedule/list_schedule.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/schedule/fill.h"
#include "planner/schedule/greedy.h"
#include "planner/schedule/hold_back.h"
#include "planner/schedule/named.h"
#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/schedule/timing.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kMostActions = 250'000;  // limit of actions that are timed while a schedule is improved

class ListScheduler {
 public:
  ListScheduler(const Layout& layout, const ScheduleCosts& costs)
      : layout_(layout),
        costs_(costs),
        replay_(layout, costs),
        limit_(costs.free_bytes),
        at_once_(costs),
        reserved_(costs),
        as_chain_(costs) {
    limit_.resize(as_index(layout.devices()), ScheduleCosts::kNoLimit);
    as_chain_.links.clear();
    if (!costs.links.empty()) chain_.emplace(layout, as_chain_);
    for (StageCosts& stage : at_once_.stages) stage.held_bytes = 0;
    for (StageCosts& stage : reserved_.stages) stage.saved_activation_bytes = std::max(stage.saved_activation_bytes, stage.held_bytes);
  }

  Rows run() {
    for (const ScheduleInfo& schedule : schedules())
      if (schedule.rows_from != RowsFrom::search && missing_for(schedule, layout_).empty()) consider_order(schedule.rows(layout_, costs_));
    consider_greedy();
    improve();
    Rows rows = held_back(layout_, costs_, frugal_.rows);
    return chain_ && chain_->run(rows) < 0 ? std::move(frugal_.rows) : rows;
  }

 private:
  struct Candidate {
    Rows rows;
    std::int64_t excess_bytes = 0;  // over the limit on the worst device
    std::int64_t end_ns = 0;
    std::int64_t ends_ns = 0;  // sum over all devices
    [[nodiscard]] std::tuple<std::int64_t, std::int64_t, std::int64_t> value() const { return std::tuple(excess_bytes, end_ns, ends_ns); }
  };

  [[nodiscard]] std::int64_t excess(const Rows& rows, const ScheduleCosts& costs) const {
    if (costs_.free_bytes.empty()) return 0;
    const std::vector<std::int64_t> saved = most_saved_bytes(rows, costs);
    std::int64_t most = 0;
    for (std::size_t d = 0; d < saved.size(); ++d)
      if (limit_[d] != ScheduleCosts::kNoLimit) most = std::max(most, saved[d] - limit_[d]);
    return most;
  }

  // Returns false where the rows deadlock.
  bool time(Candidate& candidate) {
    // Plans have to be valid as chains, so that a reader of the plan need not know the graph.
    if (chain_ && chain_->run(candidate.rows) < 0) return false;
    candidate.end_ns = replay_.run(candidate.rows);
    if (candidate.end_ns < 0) return false;
    candidate.ends_ns = replay_.ends_ns();
    return true;
  }

  bool consider(Rows rows) {
    if (rows.empty()) return false;
    Candidate candidate;
    candidate.rows = std::move(rows);
    candidate.excess_bytes = excess(candidate.rows, costs_);
    if (!time(candidate)) return false;
    consider_frugal(candidate);
    if (!best_.rows.empty() && candidate.value() >= best_.value()) return false;
    best_ = std::move(candidate);
    return true;
  }

  // Among equally short steps, keeps the one that saves the fewest bytes.
  void consider_frugal(const Candidate& candidate) {
    const auto step = [](const Candidate& one) { return std::pair(one.excess_bytes, one.end_ns); };
    if (!frugal_.rows.empty() && step(candidate) > step(frugal_)) return;
    const std::vector<std::int64_t> saved = most_saved_bytes(candidate.rows, costs_);
    const std::int64_t bytes = std::accumulate(saved.begin(), saved.end(), std::int64_t{0});
    if (!frugal_.rows.empty() && step(candidate) == step(frugal_) && bytes >= frugal_bytes_) return;
    frugal_ = candidate;
    frugal_bytes_ = bytes;
  }

  // Considers the rows as they are, and their order with weight gradients moved to where they fit best.
  void consider_order(Rows rows) {
    if (!rows.empty() && excess(rows, at_once_) == 0)
      for (const int patience : {0, 60}) consider(filled(rows, patience));
    consider(std::move(rows));
  }

  [[nodiscard]] Rows filled(const Rows& order, int patience) const {
    FillPolicy policy;
    policy.limit = limit_;
    policy.forward_patience_percent = policy.backward_patience_percent = patience;
    return fill_weights(layout_, costs_, order, policy).rows;
  }

  void consider_greedy() {
    GreedyPolicy policy;
    policy.limit = limit_;
    const int m = layout_.microbatches();
    for (const std::vector<int>& in_flight :
         {std::vector<int>(), time_warm_ups(layout_, costs_, m, false), time_warm_ups(layout_, costs_, m, true)}) {
      for (const GreedyPolicy::First first : {GreedyPolicy::First::backward, GreedyPolicy::First::alternate}) {
        policy.in_flight = in_flight;
        policy.first = first;
        policy.patience_percent = 50;
        consider_order(greedy_rows(layout_, reserved_, policy));
      }
    }
    policy.in_flight.clear();
    policy.split = false;
    consider(greedy_rows(layout_, reserved_, policy));
  }

  // Moves actions of the critical path before their neighbours, as long as that helps. Where the step does not get shorter, devices that
  // end earlier count, so that paths of equal length are shortened one after another.
  void improve() {
    std::int64_t actions = 1;
    for (const std::vector<Action>& row : best_.rows) actions += static_cast<std::int64_t>(row.size());
    std::int64_t left = kMostActions / actions;
    std::size_t at = 0;
    for (std::size_t failed = 0; left > 0;) {
      const std::vector<Place> places = critical_places();
      if (failed >= places.size()) return;
      for (; failed < places.size() && left > 0; ++failed, ++at)
        if (moved_earlier(places[at % places.size()], left)) break;
      failed = failed < places.size() ? 0 : failed;
    }
  }

  struct Place {
    std::size_t device = 0;
    std::size_t index = 0;
  };

  bool moved_earlier(const Place& place, std::int64_t& left) {
    for (const std::size_t distance : {1, 2, 4}) {
      if (distance > place.index || left <= 0) return false;
      Rows rows = best_.rows;
      std::vector<Action>& row = rows[place.device];
      const auto moved = row.begin() + static_cast<std::ptrdiff_t>(place.index);
      if (std::any_of(moved - static_cast<std::ptrdiff_t>(distance), moved, [&](const Action& action) { return bound(action, *moved); }))
        return false;
      std::rotate(moved - static_cast<std::ptrdiff_t>(distance), moved, moved + 1);
      --left;
      if (consider(std::move(rows))) return true;
    }
    return false;
  }

  // True where the order of micro-batches, or of the parts of one, does not let two actions of a device change places.
  static bool bound(const Action& a, const Action& b) {
    if (a.stage != b.stage) return false;
    if (a.kind == b.kind || a.microbatch == b.microbatch) return true;
    const bool whole = a.kind == ActionKind::backward || b.kind == ActionKind::backward;
    return whole && a.kind != ActionKind::forward && b.kind != ActionKind::forward;
  }

  // Returns the places of actions on the critical path that start when the one before them on the device ends, from the end of the step.
  std::vector<Place> critical_places() {
    replay_.run(best_.rows);
    const std::vector<std::vector<std::int64_t>>& starts = replay_.timing().start_ns;
    Place at = last_place();
    std::vector<Place> places;
    while (starts[at.device][at.index] > 0) {
      const Action& action = best_.rows[at.device][at.index];
      if (at.index > 0 && end_ns({at.device, at.index - 1}) == starts[at.device][at.index]) {
        places.push_back(at);
        --at.index;
      } else {
        at = producer(action);
      }
    }
    return places;
  }

  [[nodiscard]] std::int64_t end_ns(const Place& at) const {
    const Action& action = best_.rows[at.device][at.index];
    return replay_.timing().start_ns[at.device][at.index] + duration_ns(costs_.stages[as_index(action.stage)], action.kind);
  }

  [[nodiscard]] Place last_place() const {
    Place last;
    std::int64_t latest = -1;
    for (std::size_t d = 0; d < best_.rows.size(); ++d) {
      if (best_.rows[d].empty()) continue;
      const Place place{d, best_.rows[d].size() - 1};
      if (end_ns(place) > latest) {
        latest = end_ns(place);
        last = place;
      }
    }
    return last;
  }

  // Among the producers of the input that an action waits for, returns the one that ends last.
  [[nodiscard]] Place producer(const Action& action) const {
    const bool forward = action.kind == ActionKind::forward;
    Place last;
    std::int64_t latest = -1;
    for (const int stage : producers(action.stage, forward)) {
      const Place made = place_of(stage, action.microbatch, forward);
      if (end_ns(made) <= latest) continue;
      latest = end_ns(made);
      last = made;
    }
    return last;
  }

  [[nodiscard]] std::vector<int> producers(int stage, bool forward) const {
    if (costs_.links.empty()) return {forward ? stage - 1 : stage + 1};
    std::vector<int> stages;
    for (const LinkCosts& link : costs_.links) {
      if (forward && link.back == stage) stages.push_back(link.front);
      if (!forward && link.front == stage && link.needs_gradient) stages.push_back(link.back);
    }
    return stages;
  }

  [[nodiscard]] Place place_of(int stage, int microbatch, bool forward) const {
    const auto device = as_index(layout_.device_of(stage, microbatch));
    const std::vector<Action>& row = best_.rows[device];
    const auto made = std::ranges::find_if(row, [&](const Action& other) {
      return other.stage == stage && other.microbatch == microbatch && (other.kind == ActionKind::forward) == forward &&
             other.kind != ActionKind::backward_weight;
    });
    return {device, as_index(made - row.begin())};
  }

  const Layout& layout_;
  const ScheduleCosts& costs_;
  ScheduleReplay replay_;
  std::vector<std::int64_t> limit_;
  ScheduleCosts at_once_;                // costs where weight gradients run with the input gradients
  ScheduleCosts reserved_;               // costs where a forward reserves memory for its backward, too
  ScheduleCosts as_chain_;               // costs without links
  std::optional<ScheduleReplay> chain_;  // only in a graph
  Candidate best_;                       // the candidate to improve on
  Candidate frugal_;                     // see consider_frugal
  std::int64_t frugal_bytes_ = 0;
};

}  // namespace

Rows list_rows(const Layout& layout, const ScheduleCosts& costs) {
  return ListScheduler(layout, costs).run();
}

}  // namespace mptune::planner
