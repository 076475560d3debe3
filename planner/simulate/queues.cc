#include <deque>
#include <queue>
#include <utility>

#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

// Runs the actions in the order of time. A lane runs the operations of its row in order; a medium runs them as they become ready.
class Queues {
 public:
  explicit Queues(const Operations& operations)
      : list_(operations.list), lanes_(as_index(operations.lanes)), consumers_(list_.size()), arrived_(list_.size(), false) {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const Operation& operation = list_[i];
      if (operation.phase != Phase::actions) continue;
      arrived_[i] = operation.input < 0;
      if (operation.input >= 0) consumers_[as_index(operation.input)].push_back(i);
      // Every copy reads what an action made.
      if (operation.kind != EventKind::copy) lane_of(i).waiting.push_back(i);
    }
  }

  std::vector<std::size_t> order() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) start(lanes_[lane], 0);
    while (!ends_.empty()) {
      const auto [now, done] = ends_.top();
      ends_.pop();
      lane_of(done).busy = false;
      for (const std::size_t consumer : consumers_[done]) {
        arrived_[consumer] = true;
        if (list_[consumer].kind == EventKind::copy) lane_of(consumer).waiting.push_back(consumer);
        start(lane_of(consumer), now);
      }
      start(lane_of(done), now);
    }
    return std::move(order_);
  }

 private:
  struct Lane {
    std::deque<std::size_t> waiting;
    bool busy = false;
  };

  Lane& lane_of(std::size_t operation) { return lanes_[as_index(list_[operation].lane)]; }

  void start(Lane& lane, std::int64_t now) {
    if (lane.busy || lane.waiting.empty() || !arrived_[lane.waiting.front()]) return;
    const std::size_t operation = lane.waiting.front();
    lane.waiting.pop_front();
    lane.busy = true;
    order_.push_back(operation);
    ends_.emplace(now + list_[operation].alone_ns, operation);
  }

  using End = std::pair<std::int64_t, std::size_t>;  // when, which operation

  const std::vector<Operation>& list_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<std::size_t>> consumers_;
  std::vector<bool> arrived_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<std::size_t> order_;
};

}  // namespace

void order_by_arrival(Operations& operations) {
  std::vector<std::size_t> order = Queues(operations).order();
  for (std::size_t i = 0; i < operations.list.size(); ++i)
    if (operations.list[i].phase != Phase::actions) order.push_back(i);
  std::vector<int> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = static_cast<int>(k);
  std::vector<Operation> sorted;
  sorted.reserve(order.size());
  for (const std::size_t index : order) {
    sorted.push_back(operations.list[index]);
    if (sorted.back().input >= 0) sorted.back().input = place[as_index(sorted.back().input)];
  }
  operations.list = std::move(sorted);
}

}  // namespace mptune::planner
