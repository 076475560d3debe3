#include "profiler/model/exported/cuts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/model/program/grain.h"
#include "profiler/model/program/sample_axes.h"

namespace mptune::profiler {
namespace {

// Costs of carrying and recomputing values, in bytes (cuts.h explains them).
constexpr std::int64_t kTensorCost = 16384;
constexpr std::int64_t kOperatorCost = 4096;
constexpr std::int64_t kOutputBytesDivisor = 4;
constexpr std::size_t kMostOperators = 32;
constexpr std::int64_t kMostCutBytes = std::int64_t{1} << 56;

/// Returns the number of nodes in the regions that a node runs.
std::int64_t inner_nodes(const ProgramGraph& graph, const ProgramNode& node) {
  std::int64_t count = 0;
  for (const NamedArgument& input : node.inputs)
    if (const auto* region = std::get_if<ProgramRegion>(&input.argument))
      count += static_cast<std::int64_t>(graph.graphs[as_index(region->index)].nodes.size());
  return count;
}

}  // namespace

ProgramCuts::ProgramCuts(const ExportedProgram& program, const ExportedGraph& graph, std::int64_t samples)
    : program_(program), graph_(graph), batch_symbol_(sample_symbols(program).batch) {
  for (const auto& [symbol, range] : program_.symbols) symbols_[symbol] = std::max<std::int64_t>(samples, range.least.value_or(1));
  if (!batch_symbol_.empty()) symbols_[batch_symbol_] = samples;
  find_writes();
  find_last_uses();
  find_roles();
  find_recomputed();
}

void ProgramCuts::find_writes() {
  last_write_.assign(as_index(graph_.values()), -1);
  for (int node = 0; node < graph_.nodes(); ++node) {
    for (const int value : graph_.writes(node)) last_write_[as_index(memory_of(value))] = node;
    for (const ValueAlias& alias : graph_.aliases(node))
      if (!alias.certain) may_share_.push_back({node, alias.read});
  }
}

void ProgramCuts::find_last_uses() {
  last_use_.assign(as_index(graph_.values()), -1);
  for (int node = 0; node < graph_.nodes(); ++node)
    for (const int read : graph_.reads(node)) last_use_[as_index(read)] = node;
  for (const ProgramArgument& output : program_.graph.outputs)
    each_value(output, [&](int value) { last_use_[as_index(value)] = graph_.nodes(); });
  last_need_ = last_use_;
}

/// Finds how a stage gets a value that it does not compute: across the cut, from the model's state, or as a number.
void ProgramCuts::find_roles() {
  const auto values = as_index(graph_.values());
  role_.assign(values, Role::carried);
  needs_gradient_.assign(values, false);
  maker_.assign(values, -1);
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program_.graph.inputs[i]);
    if (value == nullptr) continue;
    const auto index = as_index(value->index);
    const ValueDescription& about = program_.graph.values[index];
    if (program_.inputs[i].kind != ProgramInput::Kind::user) role_[index] = Role::state;
    needs_gradient_[index] = program_.inputs[i].kind == ProgramInput::Kind::parameter && about.tensor && about.tensor->requires_grad;
  }
  std::map<int, std::pair<int, int>> uses;
  for (int node = 0; node < graph_.nodes(); ++node) {
    const auto& reads = graph_.reads(node);
    const bool gradient = !program_.graph.nodes[as_index(node)].without_gradients &&
                          std::any_of(reads.begin(), reads.end(), [&](int read) { return needs_gradient_[as_index(read)]; });
    for (const int made : graph_.makes(node)) {
      maker_[as_index(made)] = node;
      needs_gradient_[as_index(made)] = gradient;
      if (program_.graph.values[as_index(made)].kind != ValueDescription::Kind::tensor) role_[as_index(made)] = Role::number;
    }
    for (const int read : reads)
      if (is_state(memory_of(read)) && written(read)) uses.try_emplace(memory_of(read), node, node).first->second.second = node;
  }
  for (const auto& [state, range] : uses) state_uses_.push_back(range);
}

bool ProgramCuts::is_parameter(int value) const {
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const auto* input = std::get_if<ProgramValue>(&program_.graph.inputs[i]);
    if (input != nullptr && input->index == value) return program_.inputs[i].kind == ProgramInput::Kind::parameter;
  }
  return false;
}

bool ProgramCuts::can_recompute(int node) const {
  if (graph_.random(node) || !graph_.writes(node).empty() || graph_.running_mean(node) >= 0 || graph_.batch_counter(node) >= 0)
    return false;
  const auto& reads = graph_.reads(node);
  const auto& makes = graph_.makes(node);
  const auto of_parameter = [&](int read) { return is_parameter(memory_of(read)); };
  if (works_hard(program_.graph, program_.graph.nodes[as_index(node)]) && std::ranges::any_of(reads, of_parameter)) return false;
  const bool reads_fit = std::all_of(reads.begin(), reads.end(), [&](int read) {
    const auto& size = program_.graph.values[as_index(read)].size;
    if (role_[as_index(read)] == Role::number) return size && size->value(symbols_).has_value();
    return !needs_gradient_[as_index(read)] && !written(read);
  });
  return reads_fit && !makes.empty() &&
         std::all_of(makes.begin(), makes.end(), [&](int made) { return role_[as_index(made)] == Role::carried && !written(made); });
}

/// Returns the slice that recomputes what `node` makes. Stops when it has more than kMostOperators nodes.
ProgramCuts::Slice ProgramCuts::slice_of(int node) const {
  Slice slice;
  std::set<int> seen{node}, sources, numbers;
  std::vector<int> pending{node};
  while (!pending.empty() && slice.nodes.size() <= kMostOperators) {
    slice.nodes.push_back(pending.back());
    pending.pop_back();
    for (const int read : graph_.reads(slice.nodes.back())) {
      const Role role = role_[as_index(read)];
      if (role == Role::carried) sources.insert(read);
      if (role == Role::number) numbers.insert(read);
      if (role == Role::recomputed && seen.insert(maker_[as_index(read)]).second) pending.push_back(maker_[as_index(read)]);
    }
  }
  slice.sources.assign(sources.begin(), sources.end());
  slice.numbers.assign(numbers.begin(), numbers.end());
  return slice;
}

std::int64_t ProgramCuts::cost_of(int node) const {
  std::int64_t cost = kOperatorCost * (1 + inner_nodes(program_.graph, program_.graph.nodes[as_index(node)]));
  for (const int made : graph_.makes(node))
    if (memory_of(made) == made) cost += bytes_of(made) / kOutputBytesDivisor;
  return cost;
}

void ProgramCuts::find_recomputed() {
  for (int node = 0; node < graph_.nodes(); ++node) {
    if (!can_recompute(node)) continue;
    std::int64_t carrying = 0, recomputing = 0;
    int last = -1;
    for (const int made : graph_.makes(node)) {
      if (last_use_[as_index(made)] < 0) continue;
      carrying += kTensorCost + bytes_of(made);
      last = std::max(last, last_use_[as_index(made)]);
    }
    const Slice slice = slice_of(node);
    if (last < 0 || slice.nodes.size() > kMostOperators) continue;
    for (const int one : slice.nodes) recomputing += cost_of(one);
    for (const int source : slice.sources)
      if (last_need_[as_index(source)] < last) recomputing += kTensorCost + bytes_of(source);
    if (recomputing > carrying) continue;
    for (const int made : graph_.makes(node)) role_[as_index(made)] = Role::recomputed;
    for (const auto* needed : {&slice.sources, &slice.numbers})
      for (const int value : *needed) last_need_[as_index(value)] = std::max(last_need_[as_index(value)], last);
  }
}

std::int64_t ProgramCuts::bytes_of(int value) const {
  const ValueDescription& about = program_.graph.values[as_index(value)];
  if (!about.tensor) return 0;
  std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(scalar_type_of(about.tensor->scalar_type)));
  for (const SymbolicSize& size : about.tensor->sizes)
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(0, size.value(symbols_).value_or(1)), &bytes) || bytes > kMostCutBytes)
      return kMostCutBytes;
  return bytes;
}

CutPosition ProgramCuts::at(int position) const {
  CutPosition cut;
  for (int value = 0; value < graph_.values(); ++value) {
    const auto index = as_index(value);
    if (last_need_[index] < position || maker_[index] >= position || role_[index] == Role::state) continue;
    if (role_[index] == Role::number) {
      cut.numbers.push_back(value);
    } else if (role_[index] == Role::recomputed) {
      cut.recomputed.push_back(value);
    } else {
      cut.carried.push_back(value);
      cut.bytes = std::min(kMostCutBytes, cut.bytes + bytes_of(value));
      cut.with_gradient += needs_gradient_[index] ? 1 : 0;
    }
  }
  forbid_unknown(cut);
  forbid_shared(position, cut);
  return cut;
}

/// Forbids the cut if a number can't be derived from the samples and the sizes of carried values.
void ProgramCuts::forbid_unknown(CutPosition& cut) const {
  if (cut.numbers.empty()) return;
  SymbolValues known;
  if (!batch_symbol_.empty()) known[batch_symbol_] = symbols_.at(batch_symbol_);
  for (const int value : cut.carried) {
    const auto& about = program_.graph.values[as_index(value)].tensor;
    if (!about) continue;
    for (const SymbolicSize& size : about->sizes)
      for (const auto& [symbol, number] : symbols_)
        if (!size.is_number() && size.multiple_of(symbol) > 0) known.emplace(symbol, number);
  }
  for (const int value : cut.numbers) {
    const auto& size = program_.graph.values[as_index(value)].size;
    if (!size || !size->value(known))
      cut.forbidden = "the number '" + program_.graph.values[as_index(value)].name + "' is known only before it";
  }
}

/// Forbids the cut if memory that crosses it is written after it.
void ProgramCuts::forbid_shared(int position, CutPosition& cut) const {
  std::map<int, int> memories;  // number of carried values per memory
  for (const int value : cut.carried) {
    if (last_write_[as_index(memory_of(value))] < position) continue;
    cut.writes_to_carried = true;
    if (memories[memory_of(value)]++ > 0) cut.forbidden = "two tensors that cross it share memory that is written behind it";
    if (is_state(memory_of(value))) cut.forbidden = "a view of a buffer crosses it that is written behind it";
  }
  for (const auto& [first, last] : state_uses_)
    if (first < position && position <= last) cut.forbidden = "a buffer that is written is used on both sides of it";
  if (memories.empty()) return;
  for (const MayShare& pair : may_share_) {
    const int memory = memory_of(pair.read);
    if (pair.node < position || memories.count(memory) == 0) continue;
    if (last_write_[as_index(memory)] > pair.node && last_use_[as_index(pair.read)] > pair.node)
      cut.forbidden = "the layout of a tensor that crosses it decides what is written behind it";
  }
}

std::vector<int> ProgramCuts::useful() const {
  std::vector<int> cuts;
  int last_hard = -1;  // last node with a matrix product, convolution or the like
  for (int node = 0; node < graph_.nodes(); ++node) {
    if (!works_hard(program_.graph, program_.graph.nodes[as_index(node)])) continue;
    int best = -1;
    std::pair<bool, std::int64_t> least;
    for (int position = last_hard + 1; last_hard >= 0 && position <= node; ++position) {
      const CutPosition cut = at(position);
      if (!cut.forbidden.empty() || cut.carried.empty()) continue;
      const std::pair price(cut.writes_to_carried, cut.bytes);
      if (best >= 0 && least < price) continue;  // of equal prices the last position: norms stay with the node before them
      best = position;
      least = price;
    }
    if (best >= 0) cuts.push_back(best);
    last_hard = node;
  }
  return cuts;
}

std::vector<int> ProgramCuts::nodes_of(int first, int last) const {
  std::set<int> before;
  std::vector<int> pending;
  const auto need = [&](int value) {
    const auto index = as_index(value);
    if (role_[index] == Role::recomputed && maker_[index] < first && before.insert(maker_[index]).second) pending.push_back(maker_[index]);
  };
  for (int node = first; node < last; ++node)
    for (const int read : graph_.reads(node)) need(read);
  if (last == graph_.nodes())
    for (const ProgramArgument& output : program_.graph.outputs) each_value(output, need);
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    for (const int read : graph_.reads(node)) need(read);
  }
  std::vector<int> nodes(before.begin(), before.end());
  for (int node = first; node < last; ++node) nodes.push_back(node);
  return nodes;
}

}  // namespace mptune::profiler
