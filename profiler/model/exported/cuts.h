#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/model/exported/graph.h"
#include "profiler/model/program/exported_program.h"

namespace mptune::profiler {

/// What a cut before a node carries, and whether it is allowed.
struct CutPosition {
  std::vector<int> carried;        ///< values computed before the cut and needed after it, ascending
  std::vector<int> recomputed;     ///< values needed after it that are recomputed there from `carried`, the model's state and numbers
  std::vector<int> numbers;        ///< integers needed after it, derived from the sizes of `carried`
  std::int64_t bytes = 0;          ///< of `carried`, for the number of samples of ProgramCuts
  int with_gradient = 0;           ///< number of `carried` that need gradients
  bool writes_to_carried = false;  ///< an in-place operator after the cut writes to a carried value, which is cloned on entry
  std::string forbidden;           ///< why a cut is not allowed here, "" if it is
};

/// Liveness of a program's values at every position 0 .. nodes; position p cuts before node p. Sizes are evaluated for `samples` samples.
///
/// A cut is forbidden
/// - if two carried values share memory that is written after the cut, or may share it, depending on the layout of a carried value,
/// - if a buffer that is written is used on both sides of it,
/// - if a number is needed after it that can't be derived there.
///
/// Values without gradient (masks, rotary tables, position ids) are recomputed after every cut if that is cheaper than carrying them.
/// Carrying costs 16 KiB per tensor plus its bytes. Recomputing costs 4 KiB per operator plus a quarter of its output's bytes (0 for
/// views), with at most 32 operators. Inputs of the recomputation that would not be carried anyway add their carrying cost.
/// Random numbers, written values and values that depend on them are never recomputed, nor are products with a parameter, such as those of
/// a frozen trunk.
///
/// Requires: `graph` made from `program`.
class ProgramCuts {
 public:
  ProgramCuts(const ExportedProgram& program, const ExportedGraph& graph, std::int64_t samples);

  [[nodiscard]] CutPosition at(int position) const;
  /// Returns the finest useful cuts, ascending: between two operators for which works_hard() holds, the cheapest allowed position,
  /// preferably one without clones. May be empty.
  [[nodiscard]] std::vector<int> useful() const;

  /// Returns the nodes that layer [first, last) runs: nodes that recompute values, then its own.
  [[nodiscard]] std::vector<int> nodes_of(int first, int last) const;
  /// Returns the values of the program's symbols for `samples` samples.
  [[nodiscard]] const SymbolValues& symbols() const { return symbols_; }
  /// Returns the symbol of the batch size; "" if the program has a fixed batch size.
  [[nodiscard]] const std::string& batch_symbol() const { return batch_symbol_; }
  /// Returns the last node that uses a value; nodes() for outputs of the program, -1 if it is unused.
  [[nodiscard]] int last_use(int value) const { return last_use_[as_index(value)]; }
  /// True for inputs of the program that are parameters, buffers or constants.
  [[nodiscard]] bool is_state(int value) const { return role_[as_index(value)] == Role::state; }
  [[nodiscard]] int memory_of(int value) const { return graph_.memory_of(value); }

 private:
  enum class Role { carried, state, recomputed, number };
  /// Two values that may share memory, depending on the layout at run time.
  struct MayShare {
    int node, read;
  };
  /// Nodes that recompute a value, and the values and numbers that they read.
  struct Slice {
    std::vector<int> nodes, sources, numbers;
  };

  void find_writes();
  void find_last_uses();
  void find_roles();
  void find_recomputed();
  [[nodiscard]] bool can_recompute(int node) const;
  [[nodiscard]] bool is_parameter(int value) const;
  [[nodiscard]] Slice slice_of(int node) const;
  [[nodiscard]] std::int64_t cost_of(int node) const;
  void forbid_unknown(CutPosition& cut) const;
  void forbid_shared(int position, CutPosition& cut) const;
  [[nodiscard]] std::int64_t bytes_of(int value) const;
  [[nodiscard]] bool written(int value) const { return last_write_[as_index(memory_of(value))] >= 0; }

  const ExportedProgram& program_;
  const ExportedGraph& graph_;
  std::string batch_symbol_;
  SymbolValues symbols_;
  std::vector<Role> role_;
  std::vector<bool> needs_gradient_;
  std::vector<int> maker_;                       ///< node that computes the value, -1 for inputs
  std::vector<int> last_use_;                    ///< see last_use()
  std::vector<int> last_need_;                   ///< like last_use_, counting uses by recomputation, too
  std::vector<int> last_write_;                  ///< per memory: the last node that writes to it, -1 for none
  std::vector<std::pair<int, int>> state_uses_;  ///< first and last node, per buffer that is written
  std::vector<MayShare> may_share_;
};

}  // namespace mptune::profiler
