#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mptune/profiler/model/exported_graph.h"
#include "mptune/profiler/program/exported_program.h"

namespace mptune {

/// What a cut before a node would have to carry, and whether it may be there.
struct CutPosition {
  std::vector<int> carried;        ///< values made before the cut and used behind it, ascending
  std::vector<int> recomputed;     ///< values used behind it that depend on no input and no parameter that is trained: made again there
  std::vector<int> numbers;        ///< integers used behind it: known from the sizes of what is carried
  std::int64_t bytes = 0;          ///< of `carried`, for the sample count that the sizes are evaluated with
  int with_gradient = 0;           ///< how many of `carried` need gradients
  bool writes_to_carried = false;  ///< an in-place operator behind the cut writes to something carried: it is cloned on entry
  std::string forbidden;           ///< why no cut may be here, "" where it may
};

/// Liveness of a program at every position, 0 .. nodes: position p cuts before node p. Where two carried values share memory that is
/// written behind the cut, where a number can't be known behind it, and where a random number would have to be drawn again, a cut is
/// forbidden. Shapes are evaluated for `samples` samples. Requires: `graph` made from `program.graph`.
class ProgramCuts {
 public:
  ProgramCuts(const ExportedProgram& program, const ExportedGraph& graph, std::int64_t samples);

  [[nodiscard]] const CutPosition& at(int position) const { return positions_[static_cast<std::size_t>(position)]; }
  /// The finest cuts that are of use, ascending: between two operators that do real work the cheapest allowed position, without clones
  /// where there is one. May be empty.
  [[nodiscard]] std::vector<int> useful() const;

  /// The nodes that layer [first, last) runs: those in it, and before them the ones that make what it recomputes.
  [[nodiscard]] std::vector<int> nodes_of(int first, int last) const;
  /// Values of the program's symbols that sizes were evaluated with.
  [[nodiscard]] const SymbolValues& symbols() const { return symbols_; }
  /// The symbol of the batch's samples, "" where the program has a fixed batch.
  [[nodiscard]] const std::string& batch_symbol() const { return batch_symbol_; }
  /// The node after which a value is no longer used; nodes() for outputs of the program.
  [[nodiscard]] int last_use(int value) const { return last_use_[static_cast<std::size_t>(value)]; }
  /// Inputs of the program that are parameters, buffers or constants.
  [[nodiscard]] bool is_state(int value) const { return role_[static_cast<std::size_t>(value)] == Role::state; }
  /// The value whose memory this one may be a view of, itself for none.
  [[nodiscard]] int memory_of(int value) const { return memory_[static_cast<std::size_t>(value)]; }

 private:
  enum class Role { carried, state, free, number };

  void find_roles();
  void find_memory();
  void find_last_uses();
  [[nodiscard]] CutPosition examine(int position) const;
  [[nodiscard]] std::int64_t bytes_of(int value) const;
  [[nodiscard]] bool works(int node) const;

  const ExportedProgram& program_;
  const ExportedGraph& graph_;
  std::int64_t samples_;
  std::string batch_symbol_;
  SymbolValues symbols_;
  std::vector<Role> role_;
  std::vector<bool> needs_gradient_;
  std::vector<int> maker_;     ///< node, -1 for inputs
  std::vector<int> last_use_;  ///< node, nodes() for outputs, -1 for none
  std::vector<int> memory_;
  std::vector<int> last_write_;  ///< per memory: the last node that writes to it, -1 for none
  std::vector<CutPosition> positions_;
};

}  // namespace mptune
