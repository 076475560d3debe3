#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/partition/partition.h"
#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Whole nanoseconds of something for every range [first, last) of the layers.
class RangeTable {
 public:
  [[nodiscard]] static double bytes(int layers) { return 8 * (1.0 + layers) * (1.0 + layers); }
  explicit RangeTable(int layers) : width_(as_index(layers) + 1), ns_(width_ * width_, 0) {}
  [[nodiscard]] std::int64_t at(int first, int last) const { return ns_[index(first, last)]; }
  [[nodiscard]] std::int64_t& at(int first, int last) { return ns_[index(first, last)]; }

 private:
  [[nodiscard]] std::size_t index(int first, int last) const { return as_index(first) * width_ + as_index(last); }
  std::size_t width_;
  std::vector<std::int64_t> ns_;
};

/// Prices of a family's operations for all cuts, with the other devices idle; exactly the simulator's. A slot is one price that all
/// operations share which take equally long in every plan. Where memory decides which stages are recomputed, recomputation
/// takes no time until settle() says that it is needed.
class Prices {
 public:
  /// Both must outlive this. slot_of() throws Error where the tables of all slots take more than kTableMemoryLimit.
  Prices(const PartitionProblem& problem, const CostModel& cost);

  /// Index of the slot that prices an operation of the list, made where it is new.
  [[nodiscard]] int slot_of(const Operations& operations, std::size_t index);
  [[nodiscard]] int layers() const { return cost_.layers(); }
  [[nodiscard]] int slots() const { return static_cast<int>(slots_.size()); }
  /// Stage whose layers decide the slot's price; for copies the stage before the cut that they cross.
  [[nodiscard]] int stage(int slot) const { return slots_[as_index(slot)].stage; }
  [[nodiscard]] EventKind kind(int slot) const { return slots_[as_index(slot)].kind; }

  /// Nanoseconds of the slot where its stage has the layers [first, last).
  [[nodiscard]] std::int64_t ns(int slot, int first, int last) const {
    const Slot& s = slots_[as_index(slot)];
    return s.by_cut.empty() ? s.fixed_ns + s.by_range->at(first, last) : s.by_cut[as_index(last)];
  }

  /// The parts of ns() of a slot that is no copy: a table by range and a constant.
  [[nodiscard]] const RangeTable* by_range(int slot) const { return slots_[as_index(slot)].by_range; }
  [[nodiscard]] std::int64_t fixed_ns(int slot) const { return slots_[as_index(slot)].fixed_ns; }

  /// Fixes whether the stage with the layers [first, last) is recomputed.
  void settle(int stage, int first, int last, bool recomputed);

 private:
  enum class Kind : std::uint8_t { forward, backward, backward_input, backward_weight, optimizer, reduce, reduce_alone };
  struct Slot {
    int stage = 0;
    EventKind kind = EventKind::forward;
    std::int64_t fixed_ns = 0;
    const RangeTable* by_range = nullptr;
    std::vector<std::int64_t> by_cut;  // of copies, by the cut behind the stage
    bool operator==(const Slot&) const = default;
  };
  struct Table {
    Kind kind;
    int device_class;
    int number;  // samples, or replicas
    std::unique_ptr<RangeTable> table;
  };
  // Prices of the recomputation of a stage that may need none.
  struct Open {
    int stage;
    const RangeTable* base;
    std::unique_ptr<RangeTable> table;
  };
  [[nodiscard]] static Kind kind_of(EventKind kind);
  [[nodiscard]] Slot copy(const Operation& operation, bool output) const;
  [[nodiscard]] bool open(int stage) const;
  [[nodiscard]] const RangeTable* open_table(const Slot& slot);
  [[nodiscard]] const RangeTable* table(Kind kind, int device, int number);
  void check_memory_for_another() const;
  [[nodiscard]] RangeTable work(Kind kind, int device, int samples) const;
  [[nodiscard]] RangeTable end(Kind kind, int device, int replicas) const;

  const PartitionProblem& problem_;
  const CostModel& cost_;
  std::vector<int> devices_;  // the profile's indices
  std::vector<Table> tables_;
  std::vector<Open> open_;
  std::vector<Slot> slots_;
};

}  // namespace mptune::planner
