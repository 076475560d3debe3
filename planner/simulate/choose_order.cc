#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// Runs the actions in the order of time. A lane runs the operations of its row in order; a medium runs them as they become ready. The
// layers of a weight action that idle devices help with are in no lane; a device chooses them when nothing else ends at that time.
class OrderOfTime {
 public:
  explicit OrderOfTime(Operations& operations)
      : list_(operations.list),
        helpers_(operations.helpers),
        lanes_(as_index(operations.lanes)),
        consumers_(list_.size()),
        missing_(list_.size(), 0),
        before_(list_.size(), kNone),
        weights_of_(list_.size(), kNone) {
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const Operation& operation = list_[i];
      if (operation.phase != Phase::actions) continue;
      if (operation.input >= 0) add_consumer(as_index(operation.input), i);
      if (operation.layer >= 0)
        add_layer(i);
      else if (!queues(operation))
        lane_of(i).waiting.push_back({i, kNone});
      if (operation.kind == EventKind::backward) whole_of_[{operation.stage, operation.device}] = i;
    }
    for (const Wait& wait : operations.waits) add_consumer(as_index(wait.until), as_index(wait.operation));
  }

  std::vector<std::size_t> order() {
    for (Lane& lane : lanes_) start(lane, 0);
    for (std::int64_t now = 0;;) {
      if ((ends_.empty() || ends_.top().first > now) && choose(now)) continue;
      if (ends_.empty()) return std::move(order_);
      now = ends_.top().first;
      const std::size_t done = ends_.top().second;
      ends_.pop();
      end(done, now);
    }
  }

  [[nodiscard]] std::vector<Wait> waits() { return std::move(waits_); }

 private:
  // An operation, or all layers of a weight action.
  struct Item {
    std::size_t operation = kNone;
    std::size_t weights = kNone;
  };
  struct Lane {
    std::deque<Item> waiting;
    bool busy = false;
    EventKind last = EventKind::forward;  // kind of the operation started last
    std::size_t weights = kNone;          // the weight action whose layer was started last
    std::vector<std::size_t> until;       // what the next operation waits for
  };
  struct Weights {
    int owner = 0;  // device
    std::vector<std::size_t> layers;
    std::size_t left = 0;  // layers that have not ended
  };

  // True for a copy that is not in its sender's row. Every copy reads what an action made.
  [[nodiscard]] bool queues(const Operation& operation) const {
    return operation.kind == EventKind::copy && operation.lane != operation.device;
  }

  Lane& lane_of(std::size_t operation) { return lanes_[as_index(list_[operation].lane)]; }

  void add_consumer(std::size_t producer, std::size_t consumer) {
    consumers_[producer].push_back(consumer);
    ++missing_[consumer];
  }

  void add_layer(std::size_t i) {
    const Operation& layer = list_[i];
    Lane& owner = lane_of(i);
    const std::size_t action = owner.waiting.empty() ? kNone : owner.waiting.back().weights;
    const bool same = action != kNone && list_[weights_[action].layers.front()].stage == layer.stage &&
                      list_[weights_[action].layers.front()].microbatch == layer.microbatch;
    if (!same) {
      owner.waiting.push_back({kNone, weights_.size()});
      weights_.push_back({layer.device, {}, 0});
    }
    weights_of_[i] = owner.waiting.back().weights;
    weights_[weights_of_[i]].layers.push_back(i);
    ++weights_[weights_of_[i]].left;
    const auto layers = last_of_.try_emplace({layer.stage, layer.layer, layer.device}, kNone).first;
    const auto whole = whole_of_.find({layer.stage, layer.device});
    before_[i] = std::exchange(layers->second, i);
    if (whole != whole_of_.end() && (before_[i] == kNone || before_[i] < whole->second)) before_[i] = whole->second;
    if (before_[i] != kNone) add_consumer(before_[i], i);
  }

  void end(std::size_t done, std::int64_t now) {
    lane_of(done).busy = false;
    for (const std::size_t consumer : consumers_[done]) {
      if (--missing_[consumer] > 0) continue;
      if (list_[consumer].layer >= 0) {
        ready_.push_back(consumer);
        continue;
      }
      if (queues(list_[consumer])) lane_of(consumer).waiting.push_back({consumer, kNone});
      start(lane_of(consumer), now);
    }
    if (weights_of_[done] != kNone) {
      Weights& weights = weights_[weights_of_[done]];
      if (--weights.left == 0) start(lanes_[as_index(weights.owner)], now);
    }
    start(lane_of(done), now);
  }

  // Starts the next operation of the lane, unless it is a weight action with layers left.
  void start(Lane& lane, std::int64_t now) {
    while (!lane.busy && !lane.waiting.empty()) {
      const Item item = lane.waiting.front();
      if (item.weights == kNone) {
        if (missing_[item.operation] > 0) return;
        lane.waiting.pop_front();
        run(lane, item.operation, now);
        continue;
      }
      const Weights& weights = weights_[item.weights];
      if (weights.left > 0) return;
      lane.until.insert(lane.until.end(), weights.layers.begin(), weights.layers.end());
      lane.waiting.pop_front();
    }
  }

  void run(Lane& lane, std::size_t operation, std::int64_t now) {
    for (const std::size_t until : lane.until) add_wait(operation, until);
    lane.until.clear();
    lane.busy = true;
    lane.last = list_[operation].kind;
    lane.weights = weights_of_[operation];
    order_.push_back(operation);
    ends_.emplace(now + list_[operation].alone_ns, operation);
  }

  // The order of a lane needs no wait.
  void add_wait(std::size_t operation, std::size_t until) {
    if (list_[until].lane != list_[operation].lane) waits_.push_back({static_cast<int>(operation), static_cast<int>(until)});
  }

  bool choose(std::int64_t now) {
    bool chosen = false;
    for (std::size_t d = 0; !ready_.empty() && d < helpers_.size(); ++d) {
      if (lanes_[d].busy || helpers_[d] < 0) continue;
      const std::size_t layer = choice(static_cast<int>(d));
      if (layer == kNone) continue;
      take(layer, d, now);
      chosen = true;
    }
    return chosen;
  }

  // A device that has recomputed something waits for the gradient within that action, so it takes nothing else.
  [[nodiscard]] std::size_t choice(int device) const {
    const Lane& lane = lanes_[as_index(device)];
    const std::size_t own = lane.waiting.empty() ? kNone : lane.waiting.front().weights;
    if (!lane.waiting.empty() && own == kNone && lane.last == EventKind::recompute) return kNone;
    std::optional<Rank> best;
    for (const std::size_t layer : ready_) {
      const int owner = weights_[weights_of_[layer]].owner;
      const bool may = own == kNone ? helpers_[as_index(owner)] == helpers_[as_index(device)] : weights_of_[layer] == own;
      if (!may) continue;
      const std::int64_t work = list_[layer].alone_ns - list_[layer].overhead_ns;
      const std::int64_t size = lane.waiting.empty() ? -work : work;
      const Rank rank{owner != device, size, list_[layer].stage, list_[layer].microbatch, -list_[layer].layer, layer};
      if (!best || rank < *best) best = rank;
    }
    return best ? std::get<5>(*best) : kNone;
  }

  // Smaller is better: whether it belongs to another device, size, stage, micro-batch, layer from the last; and the operation.
  using Rank = std::tuple<bool, std::int64_t, int, int, int, std::size_t>;

  void take(std::size_t layer, std::size_t device, std::int64_t now) {
    ready_.erase(std::ranges::find(ready_, layer));
    Operation& operation = list_[layer];
    operation.device = operation.lane = static_cast<int>(device);
    Lane& lane = lanes_[device];
    if (lane.weights == weights_of_[layer]) {
      operation.alone_ns -= operation.overhead_ns;
      operation.overhead_ns = 0;
    }
    if (before_[layer] != kNone) add_wait(layer, before_[layer]);
    run(lane, layer, now);
  }

  using End = std::pair<std::int64_t, std::size_t>;  // the time, and the operation that ends then

  std::vector<Operation>& list_;
  const std::vector<int>& helpers_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<std::size_t>> consumers_;
  std::vector<int> missing_;  // per operation: how many operations that it needs have not ended
  std::vector<Weights> weights_;
  std::vector<std::size_t> before_;                           // what made the same layer's gradients before, in the owner's row
  std::vector<std::size_t> weights_of_;                       // index into weights_
  std::map<std::tuple<int, int, int>, std::size_t> last_of_;  // the last operation by stage, layer and owner, while they are listed
  std::map<std::pair<int, int>, std::size_t> whole_of_;       // the last whole backward by stage and owner, while they are listed
  std::vector<std::size_t> ready_;                            // layers that no device has taken
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<std::size_t> order_;
  std::vector<Wait> waits_;
};

}  // namespace

void choose_order(Operations& operations) {
  OrderOfTime time(operations);
  std::vector<std::size_t> order = time.order();
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
  for (const Wait& wait : time.waits()) operations.waits.push_back(wait);
  for (Wait& wait : operations.waits) wait = {place[as_index(wait.operation)], place[as_index(wait.until)]};
  std::ranges::stable_sort(operations.waits, {}, &Wait::operation);
}

}  // namespace mptune::planner
