#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mptune/profiler/exported/graph.h"
#include "mptune/profiler/program/exported_program.h"

namespace mptune {

/// What a cut before a node would have to carry, and whether it may be there.
struct CutPosition {
  std::vector<int> carried;        ///< values made before the cut and needed behind it, ascending
  std::vector<int> recomputed;     ///< values used behind it that are made again there, from `carried`, the model's state and numbers
  std::vector<int> numbers;        ///< integers used behind it: known from the sizes of what is carried
  std::int64_t bytes = 0;          ///< of `carried`, for the sample count that the sizes are evaluated with
  int with_gradient = 0;           ///< how many of `carried` need gradients
  bool writes_to_carried = false;  ///< an in-place operator behind the cut writes to something carried: it is cloned on entry
  std::string forbidden;           ///< why no cut may be here, "" where it may
};

/// Liveness of a program at every position, 0 .. nodes: position p cuts before node p. Shapes are evaluated for `samples` samples.
///
/// Forbidden are cuts where two carried values share memory that is written behind the cut, where the layout of a carried one decides
/// whether it will share memory that is written, where a buffer that is written is used on both sides, and where a number can't be known
/// behind it.
///
/// Values that need no gradient (masks, rotary tables, position ids) are made again behind every cut, instead of carried, where that costs
/// less: each tensor carried costs 16 KiB and its bytes, each operator run again 4 KiB and a quarter of the bytes that it makes (views make
/// none); at most 32 operators. What they are made from is carried in their place unless it is carried as far anyway. Never made again:
/// random numbers, what is written to, and what depends on either.
///
/// Requires: `graph` made from `program`.
class ProgramCuts {
 public:
  ProgramCuts(const ExportedProgram& program, const ExportedGraph& graph, std::int64_t samples);

  [[nodiscard]] CutPosition at(int position) const;
  /// The finest cuts that are of use, ascending: between two operators that do real work the cheapest allowed position, without clones
  /// where there is one. May be empty.
  [[nodiscard]] std::vector<int> useful() const;

  /// The nodes that layer [first, last) runs: those in it, and before them the ones that make what it recomputes.
  [[nodiscard]] std::vector<int> nodes_of(int first, int last) const;
  /// Values of the program's symbols that sizes were evaluated with.
  [[nodiscard]] const SymbolValues& symbols() const { return symbols_; }
  /// The symbol of the batch's samples, "" where the program has a fixed batch.
  [[nodiscard]] const std::string& batch_symbol() const { return batch_symbol_; }
  /// The node after which a value is no longer used; nodes() for outputs of the program, -1 where nothing uses it.
  [[nodiscard]] int last_use(int value) const { return last_use_[static_cast<std::size_t>(value)]; }
  /// Inputs of the program that are parameters, buffers or constants.
  [[nodiscard]] bool is_state(int value) const { return role_[static_cast<std::size_t>(value)] == Role::state; }
  [[nodiscard]] int memory_of(int value) const { return graph_.memory_of(value); }

 private:
  enum class Role { carried, state, recomputed, number };
  /// Two values of which only the layout at hand says whether they share memory.
  struct MayShare {
    int node, read;
  };
  /// Nodes that a value can be made again with, and what they start from.
  struct Slice {
    std::vector<int> nodes, sources, numbers;
  };

  void find_writes();
  void find_last_uses();
  void find_roles();
  void find_recomputed();
  [[nodiscard]] bool can_recompute(int node) const;
  [[nodiscard]] Slice slice_of(int node) const;
  [[nodiscard]] std::int64_t cost_of(int node) const;
  void forbid_unknown(CutPosition& cut) const;
  void forbid_shared(int position, CutPosition& cut) const;
  [[nodiscard]] std::int64_t bytes_of(int value) const;
  [[nodiscard]] bool written(int value) const { return last_write_[static_cast<std::size_t>(memory_of(value))] >= 0; }

  const ExportedProgram& program_;
  const ExportedGraph& graph_;
  std::string batch_symbol_;
  SymbolValues symbols_;
  std::vector<Role> role_;
  std::vector<bool> needs_gradient_;
  std::vector<int> maker_;                       ///< node, -1 for inputs
  std::vector<int> last_use_;                    ///< node, nodes() for outputs, -1 for none
  std::vector<int> last_need_;                   ///< the same, or what is made again from it
  std::vector<int> last_write_;                  ///< per memory: the last node that writes to it, -1 for none
  std::vector<std::pair<int, int>> state_uses_;  ///< first and last node, per buffer that is written
  std::vector<MayShare> may_share_;
};

}  // namespace mptune
