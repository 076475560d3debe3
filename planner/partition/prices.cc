#include "planner/partition/prices.h"

#include <algorithm>
#include <utility>

#include "planner/cost/replica_costs.h"
#include "planner/partition/table_memory.h"
#include "profiler/base/index.h"

namespace mptune::planner {

Prices::Prices(const PartitionProblem& problem, const CostModel& cost)
    : problem_(problem), cost_(cost), devices_(cost.device_indices(problem.devices)) {}

std::size_t Prices::QuestionHash::operator()(const Question& question) const {
  std::size_t hash = 0;
  const auto mix = [&](auto part) { hash = (hash ^ static_cast<std::size_t>(part)) * 0x9E3779B97F4A7C15; };
  std::apply([&](auto... parts) { (mix(parts), ...); }, question);
  return hash ^ hash >> 32;
}

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

// Few operations differ in what decides their price, so each different question is priced once.
int Prices::slot_of(const Operations& operations, std::size_t index) {
  const Operation& operation = operations.list[index];
  const bool output = operation.kind == EventKind::copy && operations.list[as_index(operation.input)].kind == EventKind::forward;
  const int samples = operation.phase == Phase::actions ? problem_.microbatch_sizes[as_index(operation.microbatch)] : 0;
  const auto [known, is_new] = slot_of_.try_emplace(
      {operation.phase, operation.kind, operation.stage, operation.device, operation.destination, samples, operation.overhead_ns, output},
      0);
  if (is_new) known->second = slot_like(make_slot(operation, output));
  return known->second;
}

int Prices::slot_like(Slot slot) {
  const auto known = std::find(slots_.begin(), slots_.end(), slot);
  if (known != slots_.end()) return static_cast<int>(known - slots_.begin());
  slots_.push_back(std::move(slot));
  return slots() - 1;
}

Prices::Slot Prices::make_slot(const Operation& operation, bool output) {
  if (operation.kind == EventKind::copy) return copy(operation, output);
  const int device = devices_[as_index(operation.device)];
  Slot slot;
  slot.stage = operation.stage;
  slot.kind = operation.kind;
  slot.fixed_ns = operation.overhead_ns;
  if (operation.phase == Phase::optimizer) {
    slot.layers = sums(Kind::optimizer, device, 1);
  } else if (operation.phase == Phase::reduce) {
    std::vector<int> replicas;
    for (const int replica : problem_.stages[as_index(slot.stage)]) replicas.push_back(devices_[as_index(replica)]);
    const int number = static_cast<int>(replicas.size());
    const bool alone = summing_replicas(cost_, replicas).size() == 1;
    slot.layers = sums(alone ? Kind::reduce_alone : Kind::reduce, device, number, replicas);
  } else {
    slot.layers = sums(kind_of(operation.kind), device, problem_.microbatch_sizes[as_index(operation.microbatch)]);
    if (is_open(slot.stage) && operation.kind == EventKind::recompute)
      slot.open = open_ranges(slot.stage, *std::exchange(slot.layers, nullptr));
  }
  return slot;
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

bool Prices::is_open(int stage) const {
  const bool caps = std::any_of(problem_.memory_bytes.begin(), problem_.memory_bytes.end(), [](std::int64_t cap) { return cap > 0; });
  return caps && problem_.recompute_for_memory &&
         std::find(problem_.recomputed.begin(), problem_.recomputed.end(), stage) == problem_.recomputed.end();
}

const OpenRanges* Prices::open_ranges(int stage, const LayerSums& all) {
  for (const std::unique_ptr<OpenRanges>& known : open_)
    if (known->stage() == stage && &known->all() == &all) return known.get();
  const auto tables = static_cast<double>(open_.size() + 1);
  check_table_memory(tables * OpenRanges::bytes(cost_.layers()), std::to_string(cost_.layers()) + " layers", "partition",
                     "merge layers that follow each other");
  open_.push_back(std::make_unique<OpenRanges>(stage, all, cost_.layers()));
  return open_.back().get();
}

void Prices::settle(int stage, int first, int last, bool recomputed) {
  for (const std::unique_ptr<OpenRanges>& open : open_)
    if (open->stage() == stage) open->settle(first, last, recomputed);
}

const LayerSums* Prices::sums(Kind kind, int device, int number, const std::vector<int>& replicas) {
  const int device_class = cost_.profile().devices[as_index(device)].device_class;
  for (const Known& known : known_)
    if (known.kind == kind && known.device_class == device_class && known.number == number && known.replicas == replicas)
      return known.sums.get();
  auto made = std::make_unique<LayerSums>();
  for (int layer = 0; layer < cost_.layers(); ++layer) made->add(layer_ns(kind, device, layer, number, replicas));
  known_.push_back({kind, device_class, number, replicas, std::move(made)});
  return known_.back().sums.get();
}

std::int64_t Prices::layer_ns(Kind kind, int device, int layer, int number, const std::vector<int>& replicas) const {
  switch (kind) {
    case Kind::forward:
      return to_ns(cost_.layer(device, layer, number).forward_s);
    case Kind::backward:
      return to_ns(cost_.layer(device, layer, number).backward_s);
    case Kind::backward_input:
      return to_ns(cost_.layer(device, layer, number).backward_input_s);
    case Kind::backward_weight:
      return to_ns(cost_.layer(device, layer, number).backward_weight_s);
    case Kind::optimizer:
      return to_ns(cost_.optimizer_seconds(device, layer));
    case Kind::reduce:
      return to_ns(reduce_seconds(cost_, device, layer, number, number) + replica_copies_seconds(cost_, replicas, layer));
    case Kind::reduce_alone:
      return to_ns(reduce_seconds(cost_, device, layer, number, 1) + replica_copies_seconds(cost_, replicas, layer));
  }
  return 0;
}

}  // namespace mptune::planner
