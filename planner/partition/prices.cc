#include "planner/partition/prices.h"

#include <algorithm>

#include "planner/partition/table_memory.h"
#include "profiler/base/index.h"

namespace mptune::planner {

Prices::Prices(const PartitionProblem& problem, const CostModel& cost)
    : problem_(problem), cost_(cost), devices_(cost.device_indices(problem.devices)) {}

Prices::Kind Prices::kind_of(EventKind kind) {
  switch (kind) {
    case EventKind::backward:
      return Kind::backward;
    case EventKind::backward_input:
      return Kind::backward_input;
    case EventKind::backward_weight:
      return Kind::backward_weight;
    default:
      return Kind::forward;
  }
}

int Prices::slot_of(const Operations& operations, std::size_t index) {
  const Operation& operation = operations.list[index];
  const int device = devices_[as_index(operation.device)];
  Slot slot;
  slot.stage = operation.stage;
  slot.kind = operation.kind;
  slot.fixed_ns = operation.overhead_ns;
  if (operation.kind == EventKind::copy) {
    slot = copy(operation, operations.list[as_index(operation.input)].kind == EventKind::forward);
  } else if (operation.phase == Phase::optimizer) {
    slot.by_range = table(Kind::optimizer, device, 1);
  } else if (operation.phase == Phase::reduce) {
    const std::vector<int>& replicas = problem_.stages[as_index(slot.stage)];
    const int number = static_cast<int>(replicas.size());
    const bool alone = cost_.summing_replicas(devices_[as_index(replicas.front())], number) == 1;
    slot.by_range = table(alone ? Kind::reduce_alone : Kind::reduce, device, number);
  } else {
    slot.by_range = table(kind_of(operation.kind), device, problem_.microbatch_sizes[as_index(operation.microbatch)]);
    if (open(slot.stage) && operation.kind == EventKind::recompute) slot.by_range = open_table(slot);
  }
  const auto known = std::find(slots_.begin(), slots_.end(), slot);
  if (known != slots_.end()) return static_cast<int>(known - slots_.begin());
  slots_.push_back(std::move(slot));
  return slots() - 1;
}

Prices::Slot Prices::copy(const Operation& operation, bool output) const {
  Slot slot;
  slot.kind = EventKind::copy;
  slot.stage = output ? operation.stage : operation.stage - 1;
  slot.by_cut.assign(as_index(cost_.layers()) + 1, 0);
  const int source = devices_[as_index(operation.device)];
  const int destination = devices_[as_index(operation.destination)];
  const int samples = problem_.microbatch_sizes[as_index(operation.microbatch)];
  for (int cut = 1; cut < cost_.layers(); ++cut) {
    const std::int64_t bytes = cost_.boundary_bytes(cut, samples, !output);
    slot.by_cut[as_index(cut)] = to_ns(cost_.copy_seconds(source, destination, bytes));
  }
  return slot;
}

bool Prices::open(int stage) const {
  const bool caps = std::any_of(problem_.memory_bytes.begin(), problem_.memory_bytes.end(), [](std::int64_t cap) { return cap > 0; });
  return caps && problem_.recompute_for_memory &&
         std::find(problem_.recomputed.begin(), problem_.recomputed.end(), stage) == problem_.recomputed.end();
}

const RangeTable* Prices::open_table(const Slot& slot) {
  for (const Open& known : open_)
    if (known.stage == slot.stage && known.base == slot.by_range) return known.table.get();
  check_memory_for_another();
  open_.push_back({slot.stage, slot.by_range, std::make_unique<RangeTable>(cost_.layers())});
  return open_.back().table.get();
}

void Prices::settle(int stage, int first, int last, bool recomputed) {
  for (const Open& open : open_)
    if (open.stage == stage) open.table->at(first, last) = recomputed ? open.base->at(first, last) : 0;
}

void Prices::check_memory_for_another() const {
  const auto tables = static_cast<double>(tables_.size() + open_.size() + 1);
  check_table_memory(tables * RangeTable::bytes(cost_.layers()), std::to_string(cost_.layers()) + " layers", "partition",
                     "merge layers that follow each other");
}

const RangeTable* Prices::table(Kind kind, int device, int number) {
  const int device_class = cost_.profile().devices[as_index(device)].device_class;
  for (const Table& known : tables_)
    if (known.kind == kind && known.device_class == device_class && known.number == number) return known.table.get();
  check_memory_for_another();
  const bool end_phase = kind == Kind::optimizer || kind == Kind::reduce || kind == Kind::reduce_alone;
  auto made = std::make_unique<RangeTable>(end_phase ? end(kind, device, number) : work(kind, device, number));
  tables_.push_back({kind, device_class, number, std::move(made)});
  return tables_.back().table.get();
}

// Added up layer by layer from the first and rounded once, as the simulator does: the same sums to the last bit.
RangeTable Prices::work(Kind kind, int device, int samples) const {
  std::vector<LayerTimes> layers;
  for (int layer = 0; layer < cost_.layers(); ++layer) layers.push_back(cost_.layer(device, layer, samples));
  RangeTable result(cost_.layers());
  for (int first = 0; first < cost_.layers(); ++first) {
    LayerTimes sum;
    for (int last = first + 1; last <= cost_.layers(); ++last) {
      const LayerTimes& layer = layers[as_index(last) - 1];
      sum.forward_s += layer.forward_s;
      sum.backward_s += layer.backward_s;
      sum.backward_input_s += layer.backward_input_s;
      sum.backward_weight_s += layer.backward_weight_s;
      std::int64_t& ns = result.at(first, last);
      if (kind == Kind::forward) ns = to_ns(sum.forward_s);
      if (kind == Kind::backward) ns = to_ns(sum.backward_s);
      if (kind == Kind::backward_input) ns = to_ns(sum.backward_input_s);
      if (kind == Kind::backward_weight) ns = to_ns(sum.backward_input_s + sum.backward_weight_s) - to_ns(sum.backward_input_s);
    }
  }
  return result;
}

RangeTable Prices::end(Kind kind, int device, int replicas) const {
  RangeTable result(cost_.layers());
  for (int first = 0; first < cost_.layers(); ++first) {
    std::int64_t bytes = 0;
    for (int last = first + 1; last <= cost_.layers(); ++last) {
      bytes += cost_.parameters_bytes(last - 1, last);
      const int summing = kind == Kind::reduce_alone ? 1 : replicas;
      result.at(first, last) =
          to_ns(kind == Kind::optimizer ? cost_.optimizer_seconds(device, bytes) : cost_.reduce_seconds(device, bytes, replicas, summing));
    }
  }
  return result;
}

}  // namespace mptune::planner
