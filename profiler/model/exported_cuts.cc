#include "mptune/profiler/model/exported_cuts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "mptune/profiler/program/sample_axes.h"

namespace mptune {
ProgramCuts::ProgramCuts(const ExportedProgram& program, const ExportedGraph& graph, std::int64_t samples)
    : program_(program), graph_(graph), samples_(samples) {
  find_memory();
  find_roles();
  find_last_uses();
  for (int position = 0; position <= graph_.nodes(); ++position) positions_.push_back(examine(position));
}

/// What a value is to a stage that does not make it: something that crosses the cut, the model's state, a number, or free: made again from
/// state without gradients and numbers alone.
void ProgramCuts::find_roles() {
  const auto values = static_cast<std::size_t>(graph_.values());
  role_.assign(values, Role::carried);
  needs_gradient_.assign(values, false);
  maker_.assign(values, -1);
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const auto* value = std::get_if<ProgramValue>(&program_.graph.inputs[i]);
    if (value == nullptr) continue;
    const auto index = static_cast<std::size_t>(value->index);
    const ValueDescription& about = program_.graph.values[index];
    if (program_.inputs[i].kind != ProgramInput::Kind::user) role_[index] = Role::state;
    needs_gradient_[index] = program_.inputs[i].kind == ProgramInput::Kind::parameter && about.tensor && about.tensor->requires_grad;
  }
  batch_symbol_ = sample_symbols(program_).batch;
  for (const auto& [symbol, range] : program_.symbols) symbols_[symbol] = std::max<std::int64_t>(samples_, range.least.value_or(1));
  if (!batch_symbol_.empty()) symbols_[batch_symbol_] = samples_;

  for (int node = 0; node < graph_.nodes(); ++node) {
    bool gradient = false, free = !graph_.random(node) && graph_.writes(node).empty() && graph_.running_mean(node) < 0;
    for (const int read : graph_.reads(node)) {
      const auto index = static_cast<std::size_t>(read);
      gradient = gradient || needs_gradient_[index];
      free = free && role_[index] != Role::carried && !needs_gradient_[index] && last_write_[static_cast<std::size_t>(memory_of(read))] < 0;
    }
    for (const int made : graph_.makes(node)) {
      const auto index = static_cast<std::size_t>(made);
      const ValueDescription& about = program_.graph.values[index];
      maker_[index] = node;
      needs_gradient_[index] = gradient;
      if (about.kind != ValueDescription::Kind::tensor) {
        role_[index] = Role::number;
      } else if (free && last_write_[static_cast<std::size_t>(memory_of(made))] < 0) {
        role_[index] = Role::free;
      }
    }
  }
}

/// Views follow the value that they look at; the last write to each memory.
void ProgramCuts::find_memory() {
  const auto values = static_cast<std::size_t>(graph_.values());
  memory_.resize(values);
  for (std::size_t i = 0; i < values; ++i) memory_[i] = static_cast<int>(i);
  last_write_.assign(values, -1);
  for (int node = 0; node < graph_.nodes(); ++node) {
    for (const auto& [made, read] : graph_.aliases(node)) memory_[static_cast<std::size_t>(made)] = memory_[static_cast<std::size_t>(read)];
    for (const int written : graph_.writes(node)) last_write_[static_cast<std::size_t>(memory_of(written))] = node;
  }
}

void ProgramCuts::find_last_uses() {
  last_use_.assign(static_cast<std::size_t>(graph_.values()), -1);
  for (int node = 0; node < graph_.nodes(); ++node)
    for (const int read : graph_.reads(node)) last_use_[static_cast<std::size_t>(read)] = node;
  for (const ProgramArgument& output : program_.graph.outputs)
    each_value(output, [&](int value) { last_use_[static_cast<std::size_t>(value)] = graph_.nodes(); });
}

std::int64_t ProgramCuts::bytes_of(int value) const {
  const ValueDescription& about = program_.graph.values[static_cast<std::size_t>(value)];
  if (!about.tensor) return 0;
  std::int64_t elements = 1;
  for (const SymbolicSize& size : about.tensor->sizes) {
    const std::int64_t known = std::max<std::int64_t>(0, size.value(symbols_).value_or(1));
    if (known > 0 && elements > (std::int64_t{1} << 56) / known) return std::int64_t{1} << 56;
    elements *= known;
  }
  return elements * static_cast<std::int64_t>(c10::elementSize(scalar_type_of(about.tensor->scalar_type)));
}

CutPosition ProgramCuts::examine(int position) const {
  CutPosition cut;
  std::map<int, int> memories;  // carried values by memory
  for (int value = 0; value < graph_.values(); ++value) {
    const auto index = static_cast<std::size_t>(value);
    if (maker_[index] >= position || last_use_[index] < position || role_[index] == Role::state) continue;
    if (role_[index] == Role::number) {
      cut.numbers.push_back(value);
      const auto& size = program_.graph.values[index].size;
      if (!size || !size->value(symbols_)) cut.forbidden = "the number '" + program_.graph.values[index].name + "' is known before it only";
      continue;
    }
    if (role_[index] == Role::free) {
      cut.recomputed.push_back(value);
      continue;
    }
    cut.carried.push_back(value);
    cut.bytes += bytes_of(value);
    cut.with_gradient += needs_gradient_[index] ? 1 : 0;
    const bool written = last_write_[static_cast<std::size_t>(memory_of(value))] >= position;
    cut.writes_to_carried = cut.writes_to_carried || written;
    if (memories[memory_of(value)]++ > 0 && written) cut.forbidden = "two tensors that cross it share memory that is written behind it";
    if (is_state(memory_of(value)) && written) cut.forbidden = "a view of a buffer crosses it that is written behind it";
  }
  return cut;
}

bool ProgramCuts::works(int node) const {
  for (const int read : graph_.reads(node)) {
    const ValueDescription& about = program_.graph.values[static_cast<std::size_t>(read)];
    if (is_state(memory_of(read)) && needs_gradient_[static_cast<std::size_t>(read)] && about.tensor && about.tensor->sizes.size() >= 2)
      return true;
  }
  const std::string& target = program_.graph.nodes[static_cast<std::size_t>(node)].target;
  return target.find(".matmul.") != std::string::npos || target.find(".bmm.") != std::string::npos ||
         target.find("attention") != std::string::npos;
}

std::vector<int> ProgramCuts::useful() const {
  std::vector<int> cuts;
  int worked = -1;  // the last node that does real work
  const auto better = [&](int a, int b) {
    const CutPosition& x = at(a);
    const CutPosition& y = at(b);
    return std::pair(x.writes_to_carried, x.bytes) < std::pair(y.writes_to_carried, y.bytes);
  };
  for (int node = 0; node < graph_.nodes(); ++node) {
    if (!works(node)) continue;
    int best = -1;
    for (int position = worked + 1; worked >= 0 && position <= node; ++position) {
      const CutPosition& cut = at(position);
      if (!cut.forbidden.empty() || cut.carried.empty()) continue;
      if (best < 0 || !better(best, position)) best = position;  // of equal ones the last: norms stay with what they follow
    }
    if (best >= 0) cuts.push_back(best);
    worked = node;
  }
  return cuts;
}

std::vector<int> ProgramCuts::nodes_of(int first, int last) const {
  std::set<int> before;
  std::vector<int> open;
  const auto need = [&](int value) {
    const auto index = static_cast<std::size_t>(value);
    if (role_[index] != Role::free || maker_[index] < 0 || maker_[index] >= first) return;
    if (before.insert(maker_[index]).second) open.push_back(maker_[index]);
  };
  for (int node = first; node < last; ++node)
    for (const int read : graph_.reads(node)) need(read);
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const int read : graph_.reads(node)) need(read);
  }
  std::vector<int> nodes(before.begin(), before.end());
  for (int node = first; node < last; ++node) nodes.push_back(node);
  return nodes;
}

}  // namespace mptune
