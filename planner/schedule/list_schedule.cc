#include "mptune/planner/schedule/list_schedule.h"

#include <algorithm>

#include "mptune/planner/schedule/greedy.h"
#include "mptune/planner/schedule/named.h"
#include "mptune/planner/schedule/schedule.h"
#include "mptune/planner/schedule/timing.h"

namespace mptune {
namespace {

class ListScheduler {
 public:
  ListScheduler(const Layout& layout, const ScheduleCosts& costs)
      : layout_(layout), costs_(costs), replay_(layout, costs), limit_(costs.free_bytes) {
    limit_.resize(static_cast<std::size_t>(layout.devices()), ScheduleCosts::kNoLimit);
  }

  Rows run() {
    for (const std::string& name : schedule_names()) {
      if (name != "list" && missing_for(name, layout_).empty()) consider(named_rows(name, layout_, costs_));
    }
    consider_greedy();
    return std::move(best_);
  }

 private:
  // Bytes over the limit on the worst device; 0 where all fit.
  [[nodiscard]] std::int64_t excess(const Rows& rows) const {
    const std::vector<std::int64_t> kept = kept_bytes(rows, costs_);
    std::int64_t most = 0;
    for (std::size_t d = 0; d < kept.size(); ++d) {
      if (limit_[d] != ScheduleCosts::kNoLimit) most = std::max(most, kept[d] - limit_[d]);
    }
    return most;
  }

  bool consider(Rows rows) {
    if (rows.empty()) return false;
    const std::pair<std::int64_t, std::int64_t> value(excess(rows), replay_.run(rows));
    if (!best_.empty() && value >= value_) return false;
    value_ = value;
    best_ = std::move(rows);
    return true;
  }

  void consider_greedy() {
    GreedyPolicy policy;
    policy.limit = limit_;
    for (const bool split : {true, false}) {
      for (const GreedyPolicy::First first :
           {GreedyPolicy::First::backward, GreedyPolicy::First::alternate, GreedyPolicy::First::forward}) {
        for (const int patience : {0, 50, 100}) {
          if (!split && patience > 0) continue;
          policy.split = split;
          policy.first = first;
          policy.patience_percent = patience;
          consider(greedy_rows(layout_, costs_, policy));
        }
      }
    }
  }

  const Layout& layout_;
  const ScheduleCosts& costs_;
  ScheduleReplay replay_;
  std::vector<std::int64_t> limit_;
  Rows best_;
  std::pair<std::int64_t, std::int64_t> value_;
};

}  // namespace

Rows list_rows(const Layout& layout, const ScheduleCosts& costs) {
  return ListScheduler(layout, costs).run();
}

}  // namespace mptune
