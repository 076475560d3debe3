#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/partition/partition.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Whole nanoseconds of something in each layer, added up: the sum over any range [first, last) of layers is a difference of two sums.
class LayerSums {
 public:
  /// Starts with no layer.
  LayerSums() = default;
  /// Adds the nanoseconds of the next layer.
  void add(std::int64_t ns) { before_.push_back(before_.back() + ns); }
  [[nodiscard]] std::int64_t before(int layer) const { return before_[as_index(layer)]; }
  [[nodiscard]] std::int64_t at(int first, int last) const { return before(last) - before(first); }

 private:
  std::vector<std::int64_t> before_ = {0};
};

/// Recomputation of a stage that may need none. It takes no time for a range of layers until Prices::settle() says that the range needs it.
class OpenRanges {
 public:
  OpenRanges(int stage, const LayerSums& all, int layers) : stage_(stage), all_(all), width_(as_index(layers) + 1) {}
  [[nodiscard]] static double bytes(int layers) { return (1.0 + layers) * (1.0 + layers) / 8; }
  [[nodiscard]] int stage() const { return stage_; }
  [[nodiscard]] const LayerSums& all() const { return all_; }
  [[nodiscard]] std::int64_t at(int first, int last) const { return recomputed(first, last) ? all_.at(first, last) : 0; }
  void settle(int first, int last, bool recomputed) {
    if (recomputed_.empty()) recomputed_.assign(width_ * width_, false);
    recomputed_[as_index(first) * width_ + as_index(last)] = recomputed;
  }

 private:
  [[nodiscard]] bool recomputed(int first, int last) const {
    return !recomputed_.empty() && recomputed_[as_index(first) * width_ + as_index(last)];
  }

  int stage_;
  const LayerSums& all_;
  std::size_t width_;
  std::vector<bool> recomputed_;  // empty: no range is recomputed
};

/// Prices of a family's operations for all cuts, with the other devices idle; they are exactly the simulator's. A slot is one price that
/// all operations share that take equally long in every plan. Times of layers are whole nanoseconds, so those of a stage are sums over its
/// layers. Where memory decides which stages are recomputed, recomputation is no sum (OpenRanges).
class Prices {
 public:
  /// Both arguments must outlive this object. slot_of() throws Error where open ranges take more than kTableMemoryLimit.
  Prices(const PartitionProblem& problem, const CostModel& cost);

  /// Returns the index of the slot that prices an operation of the list. A new slot is made where there is none.
  [[nodiscard]] int slot_of(const Operations& operations, std::size_t index);
  [[nodiscard]] int layers() const { return cost_.layers(); }
  [[nodiscard]] int slots() const { return static_cast<int>(slots_.size()); }
  /// Returns the stage whose layers decide the slot's price; for copies, the stage before the cut that they cross.
  [[nodiscard]] int stage(int slot) const { return slots_[as_index(slot)].stage; }
  [[nodiscard]] EventKind kind(int slot) const { return slots_[as_index(slot)].kind; }

  /// Returns the nanoseconds of the slot where its stage has the layers [first, last).
  [[nodiscard]] std::int64_t ns(int slot, int first, int last) const {
    const Slot& s = slots_[as_index(slot)];
    if (!s.by_cut.empty()) return s.by_cut[as_index(last)];
    return s.fixed_ns + (s.open != nullptr ? s.open->at(first, last) : s.layers->at(first, last));
  }

  /// The parts of ns(): copies have prices by the cut after the stage; the list is empty for other slots.
  [[nodiscard]] const std::vector<std::int64_t>& by_cut(int slot) const { return slots_[as_index(slot)].by_cut; }
  /// Other slots have a constant, and either sums over layers (else null) or open ranges (else null).
  [[nodiscard]] std::int64_t fixed_ns(int slot) const { return slots_[as_index(slot)].fixed_ns; }
  [[nodiscard]] const LayerSums* by_layers(int slot) const { return slots_[as_index(slot)].layers; }
  [[nodiscard]] const OpenRanges* open(int slot) const { return slots_[as_index(slot)].open; }

  /// Fixes whether the stage with the layers [first, last) is recomputed.
  void settle(int stage, int first, int last, bool recomputed);

 private:
  enum class Kind : std::uint8_t { forward, backward, backward_input, backward_weight, optimizer, reduce, reduce_alone };
  struct Slot {
    int stage = 0;
    EventKind kind = EventKind::forward;
    std::int64_t fixed_ns = 0;
    const LayerSums* layers = nullptr;
    const OpenRanges* open = nullptr;
    std::vector<std::int64_t> by_cut;  // for copies, by the cut after the stage
    bool operator==(const Slot&) const = default;
  };
  struct Known {
    Kind kind;
    int device_class;
    int number;                 // samples, or replicas
    std::vector<int> replicas;  // for a sum of gradients: devices in the profile, between which copies take time
    std::unique_ptr<LayerSums> sums;
  };
  // Everything that decides a price: phase, kind, stage, device, destination, samples, fixed cost, copy of an output.
  using Question = std::tuple<Phase, EventKind, int, int, int, int, std::int64_t, bool>;
  struct QuestionHash {
    [[nodiscard]] std::size_t operator()(const Question& question) const;
  };
  [[nodiscard]] static Kind kind_of(EventKind kind);
  [[nodiscard]] Slot make_slot(const Operation& operation, bool output);
  [[nodiscard]] int slot_like(Slot slot);
  [[nodiscard]] Slot copy(const Operation& operation, bool output) const;
  [[nodiscard]] bool is_open(int stage) const;
  [[nodiscard]] const OpenRanges* open_ranges(int stage, const LayerSums& all);
  [[nodiscard]] const LayerSums* sums(Kind kind, int device, int number, const std::vector<int>& replicas = {});
  [[nodiscard]] std::int64_t layer_ns(Kind kind, int device, int layer, int number, const std::vector<int>& replicas) const;

  const PartitionProblem& problem_;
  const CostModel& cost_;
  std::vector<int> devices_;  // indices in the profile
  std::vector<Known> known_;
  std::vector<std::unique_ptr<OpenRanges>> open_;
  std::vector<Slot> slots_;
  std::unordered_map<Question, int, QuestionHash> slot_of_;
};

}  // namespace mptune::planner
