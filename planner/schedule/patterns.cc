#include "planner/schedule/patterns.h"

#include <algorithm>
#include <array>
#include <deque>

#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

void drop_beyond(Rows& rows, int microbatches) {
  for (std::vector<Action>& row : rows) std::erase_if(row, [=](const Action& action) { return action.microbatch >= microbatches; });
}

// Interleaved 1F1B with micro-batches in groups of `group`.
struct InterleavedOrder {
  int devices = 1;
  int virtual_stages = 1;
  int group = 1;

  // Returns the k-th forward (or backward) of a device: in each group the device's stages run in turn.
  [[nodiscard]] Action action(int device, int k, ActionKind kind) const {
    const int within = k % (group * virtual_stages);
    const int turn = within / group;
    const int chunk = kind == ActionKind::forward ? turn : virtual_stages - 1 - turn;
    return {chunk * devices + device, kind, k / (group * virtual_stages) * group + within % group};
  }

  [[nodiscard]] std::vector<Action> row(int device, int microbatches) const {
    const int total = (microbatches + group - 1) / group * group * virtual_stages;
    const int warm_up = std::min(total, (devices - 1 - device) * 2 + (virtual_stages - 1) * group + 1);
    std::vector<Action> row;
    for (int k = 0; k < warm_up; ++k) row.push_back(action(device, k, ActionKind::forward));
    for (int k = 0; k < total; ++k) {
      row.push_back(action(device, k, ActionKind::backward));
      if (k + warm_up < total) row.push_back(action(device, k + warm_up, ActionKind::forward));
    }
    return row;
  }
};

// Says when the four actions of micro-batch 0 run on device d, in the order forward down, forward up, backward down, backward up. The
// actions of micro-batch i come 6 i units later.
struct VOffsets {
  int devices = 1;
  VPattern pattern;
  int forward_up = 0;
  int backward_down = 0;
  int backward_up = 0;

  [[nodiscard]] std::array<int, 4> on(int d) const {
    const int back = (devices - 1 - d) * pattern.up;
    return {d * pattern.down, forward_up + back, backward_down + d * pattern.down, backward_up + back};
  }

  [[nodiscard]] bool collide() const {
    for (int d = 0; d < devices; ++d) {
      const std::array<int, 4> at = on(d);
      for (std::size_t a = 0; a < 4; ++a) {
        for (std::size_t b = 0; b < a; ++b)
          if ((at[a] - at[b]) % 6 == 0) return true;
      }
    }
    return false;
  }
};

// Returns the earliest turns at both ends of the V with which no two actions of a device collide.
VOffsets v_offsets(int devices, const VPattern& pattern) {
  const int down = (devices - 1) * pattern.down;
  const int up = (devices - 1) * pattern.up;
  VOffsets best;
  bool found = false;
  for (int a = 1; a <= 6; ++a) {
    for (int b = 1; b <= 6; ++b) {
      for (int c = 1; c <= 6; ++c) {
        VOffsets offsets{devices, pattern, down + a, 0, 0};
        offsets.backward_down = offsets.forward_up + up + b;
        offsets.backward_up = offsets.backward_down + down + c;
        if ((found && offsets.backward_up >= best.backward_up) || offsets.collide()) continue;
        best = offsets;
        found = true;
      }
    }
  }
  return best;
}

// Returns a device's actions unit by unit; weight gradients run in the two of six units that the other actions leave free.
std::vector<Action> v_row(const VOffsets& offsets, int device, int microbatches) {
  const std::array<int, 4> at = offsets.on(device);
  const int back = 2 * offsets.devices - 1 - device;
  const std::array<Action, 4> parts = {Action{device, ActionKind::forward, 0}, Action{back, ActionKind::forward, 0},
                                       Action{back, ActionKind::backward_input, 0}, Action{device, ActionKind::backward_input, 0}};
  std::deque<Action> weights;
  std::vector<Action> row;
  const std::size_t all = as_index(microbatches) * 6;
  for (int time = 0; row.size() < all; ++time) {
    bool taken = false;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if ((time - at[part]) % 6 != 0) continue;
      taken = true;
      const int i = (time - at[part]) / 6;
      if (time < at[part] || i >= microbatches) continue;
      row.push_back({parts[part].stage, parts[part].kind, i});
      if (parts[part].kind == ActionKind::backward_input) weights.push_back({parts[part].stage, ActionKind::backward_weight, i});
    }
    if (taken || weights.empty()) continue;
    row.push_back(weights.front());
    weights.pop_front();
  }
  return row;
}

// Emits actions in an order in which each comes after what it reads, device by device in rounds.
class VRounds {
 public:
  VRounds(int devices, int microbatches) : devices_(devices), microbatches_(microbatches), done_(as_index(devices)), rows_(done_.size()) {}

  Rows run() {
    for (int d = 0; d < devices_; ++d) warm_up_down(d);
    for (int d = devices_; d-- > 0;) emit(d, kForwardUp);
    for (int i = 1; i < devices_; ++i) {
      for (int d = i; d < devices_; ++d) emit(d, kForwardDown);
      for (int d = devices_; d-- > i;) emit(d, kForwardUp);
    }
    std::size_t before = 0;
    do {
      before = emitted_;
      round();
    } while (emitted_ > before);
    return std::move(rows_);
  }

 private:
  enum Part { kForwardDown, kForwardUp, kBackwardDown, kBackwardUp };

  [[nodiscard]] int done(int d, Part part) const { return done_[as_index(d)][part]; }

  // Emits the forwards that run before the first micro-batch can return.
  void warm_up_down(int d) {
    for (int k = 0; k < 2 * (devices_ - d) - 1; ++k) emit(d, kForwardDown);
  }

  [[nodiscard]] bool can(int d, Part part) const {
    const int k = done(d, part);
    if (k == microbatches_) return false;
    const bool down = part == kForwardDown || part == kBackwardDown;
    if (down ? d > 0 : d + 1 < devices_) return done(down ? d - 1 : d + 1, part) > k;
    return part == kForwardDown || done(d, static_cast<Part>(part - 1)) > k;  // at the turn of the V, the part before is on this device
  }

  bool emit(int d, Part part) {
    if (!can(d, part)) return false;
    const bool first = part == kForwardDown || part == kBackwardUp;
    const bool forward = part == kForwardDown || part == kForwardUp;
    rows_[as_index(d)].push_back(
        {first ? d : 2 * devices_ - 1 - d, forward ? ActionKind::forward : ActionKind::backward_input, done_[as_index(d)][part]++});
    ++emitted_;
    return true;
  }

  // Emits one backward per device, upwards where one was ready when the round began; then one forward per device, upwards where one is
  // ready.
  void round() {
    std::vector<int> down;
    std::vector<int> up;
    for (int d = 0; d < devices_; ++d) (can(d, kBackwardUp) || done(d, kBackwardDown) == microbatches_ ? up : down).push_back(d);
    std::reverse(up.begin(), up.end());
    for (const int d : up) emit(d, kBackwardUp);
    for (const int d : down) emit(d, kBackwardDown);
    for (int d = 0; d < devices_; ++d)
      if (kept(d) < 2 * devices_ && !emit(d, kForwardUp)) emit(d, kForwardDown);
  }

  [[nodiscard]] int kept(int d) const {
    return done(d, kForwardDown) + done(d, kForwardUp) - done(d, kBackwardDown) - done(d, kBackwardUp);
  }

  int devices_;
  int microbatches_;
  std::vector<std::array<int, 4>> done_;
  Rows rows_;
  std::size_t emitted_ = 0;
};

// One device of DualPipeV: its four counters and its postponed weight gradients.
class DualPipeVRow {
 public:
  DualPipeVRow(int device, int devices) : stages_{device, 2 * devices - 1 - device} {}

  void forward(int chunk) { add(chunk, ActionKind::forward, forwards_); }
  void backward(int chunk, bool split = false) {
    if (split) weights_.push_back({stage(chunk), ActionKind::backward_weight, backwards_[as_index(chunk)]});
    add(chunk, split ? ActionKind::backward_input : ActionKind::backward, backwards_);
  }
  void weight() {
    if (weights_.empty()) return;
    row_.push_back(weights_.front());
    weights_.pop_front();
  }
  [[nodiscard]] std::vector<Action> take() {
    while (!weights_.empty()) weight();
    return std::move(row_);
  }

 private:
  [[nodiscard]] int stage(int chunk) const { return stages_[as_index(chunk)]; }
  void add(int chunk, ActionKind kind, std::array<int, 2>& count) { row_.push_back({stage(chunk), kind, count[as_index(chunk)]++}); }

  std::array<int, 2> stages_;
  std::array<int, 2> forwards_{0, 0};
  std::array<int, 2> backwards_{0, 0};
  std::deque<Action> weights_;
  std::vector<Action> row_;
};

// Emits the eight phases of a device, D = devices, m >= 2 D micro-batches; chunk 0 goes down the V, chunk 1 comes back.
std::vector<Action> dual_pipe_v_row(int device, int devices, int microbatches) {
  const int below = devices - 1 - device;
  DualPipeVRow row(device, devices);
  for (int i = 0; i < 2 * below; ++i) row.forward(0);
  for (int i = 0; i <= device; ++i) {
    row.forward(0);
    row.forward(1);
  }
  for (int i = 0; i < below; ++i) {
    row.backward(1, true);
    row.weight();
    row.forward(1);
  }
  for (int i = 0; i < microbatches - 2 * devices + device + 1; ++i) {
    row.forward(0);
    row.backward(1);
    row.forward(1);
    row.backward(0);
  }
  for (int i = 0; i < below; ++i) {
    row.backward(1);
    row.forward(1);
    row.backward(0);
  }
  // From the middle of the last backwards on, weight gradients are postponed.
  for (int i = 0; i <= device; ++i) {
    const int half = (device + 1) / 2;
    row.backward(1, i > half || (i == half && device % 2 == 1));
    row.backward(0, i >= half);
  }
  for (int i = 0; i < below; ++i) {
    row.weight();
    row.backward(0, true);
  }
  return row.take();
}

}  // namespace

Rows interleaved_rows(int devices, int stages, int microbatches, int group) {
  const InterleavedOrder order{devices, stages / devices, group};
  Rows rows;
  for (int d = 0; d < devices; ++d) rows.push_back(order.row(d, microbatches));
  drop_beyond(rows, microbatches);
  return rows;
}

Rows v_rows(int devices, int microbatches, const VPattern& pattern) {
  const VOffsets offsets = v_offsets(devices, pattern);
  Rows rows;
  for (int d = 0; d < devices; ++d) rows.push_back(v_row(offsets, d, microbatches));
  return rows;
}

Rows zero_bubble_v_order(int devices, int microbatches) {
  return VRounds(devices, microbatches).run();
}

Rows dual_pipe_v_rows(int devices, int microbatches) {
  Rows rows;
  for (int d = 0; d < devices; ++d) rows.push_back(dual_pipe_v_row(d, devices, std::max(microbatches, 2 * devices)));
  drop_beyond(rows, microbatches);
  return rows;
}

}  // namespace mptune::planner
