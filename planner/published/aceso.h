#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/trace/formats/operator_row.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// One row of an operator table of Aceso (EuroSys'24, doi 10.1145/3627703.3629554; microsoft/SuperScaler, branch Aceso), at one micro-batch
/// size.
struct AcesoOperator {
  std::string name;
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t input_bytes = 0;  ///< bytes received where a stage begins here, skips included
  std::int64_t output_bytes = 0;
  std::int64_t weights_bytes = 0;
  std::int64_t saved_activation_bytes = 0;  ///< activations held for backward, counted once where operators share them
  std::int64_t forward_reserved_bytes = 0;  ///< bytes that the allocator takes above what is held
  std::int64_t backward_reserved_bytes = 0;
  bool recomputable = true;
  bool begins_piece = false;  ///< what is computed again starts anew from here
  bool operator==(const AcesoOperator&) const = default;
};

/// The operators of the whole model, in order.
struct AcesoTable {
  int samples = 0;
  std::vector<AcesoOperator> operators;
  bool operator==(const AcesoTable&) const = default;
};

/// Returns the table of a GPT model of `layers` encoder layers from its rows, with Aceso's conventions: the attention's softmax keeps
/// nothing of its own, its dropout half as much again; a piece is an encoder layer, from its first normalization on; neither embedding nor
/// loss is recomputed.
[[nodiscard]] AcesoTable aceso_table(int samples, const std::vector<profiler::OperatorRow>& rows, int layers);

/// Bytes held per byte of weights. 16-bit weights with Adam: weights 1, 32-bit copy 2, gradient 1, moments 4.
inline constexpr int kHeldInMixedPrecision = 8;
/// 32-bit weights with Adam: weights 1, gradient 1, moments 2.
inline constexpr int kHeldInSinglePrecision = 4;

/// A pure pipeline: one stage on each of `devices`, any cuts, any micro-batch size that has a table and divides the batch, any operators
/// recomputed.
struct AcesoProblem {
  std::vector<AcesoTable> tables;
  std::vector<LinkPoint> links;  ///< times on a link between devices: copies of 1, 2, 4, ... MiB; empty: copies take no time
  int devices = 1;
  int batch = 0;                                ///< samples per step
  std::int64_t memory_bytes = 0;                ///< cap per device; 0: none
  int held_per_weight = kHeldInMixedPrecision;  ///< bytes held per byte of weights
  std::function<bool()> stop;                   ///< asked now and then; true ends the search with what it has proved
  /// Limit of the sets of recomputed operators that are looked at, of all sizes together. Then the search goes on without further
  /// recomputation.
  std::int64_t most_sets = 300'000'000;
};

struct AcesoStage {
  int first = 0;  ///< operators [first, last)
  int last = 0;
  std::vector<int> recomputed;  ///< operators, ascending
  std::int64_t turn_ns = 0;     ///< time of one micro-batch: forward, backward, recomputation, what comes in, what goes out
  std::int64_t recompute_ns = 0;
  std::int64_t held_bytes = 0;      ///< weights with all that belongs to them, activations
  std::int64_t reserved_bytes = 0;  ///< bytes above held_bytes
  [[nodiscard]] std::int64_t peak_bytes() const { return held_bytes + reserved_bytes; }
  bool operator==(const AcesoStage&) const = default;
};

struct AcesoPlan {
  int samples = 0;  ///< samples in a micro-batch
  int microbatches = 0;
  std::vector<AcesoStage> stages;
  std::int64_t step_ns = 0;
  bool operator==(const AcesoPlan&) const = default;
};

/// Rates a plan by Aceso's objective T = sum of all t + (M - 1) x the largest t, with t of a stage =
///
///     forward + backward + forward of what is recomputed + input / bandwidth(input) + output / bandwidth(output)
///
/// Here the bandwidth of a message of [2^i, 2^(i+1)) MiB is that of entry i - 1 of the links (entry 0 below 4 MiB, the last one beyond),
/// with a GiB/s taken for 1000 MiB/s. The memory of a stage with b stages after it is:
///
///     held_per_weight x weights + (b + 1) x (input + kept - saved) + again
///     + max(most forward reserve + most backward reserve, weights)      reserves: of all operators of the stage but its last
///
/// Here `saved` is what operators keep whose successor in the same piece is recomputed like them. `again` is the most that any one run of
/// recomputed operators in a piece saves, with what its last operator keeps where the run reaches the piece's end inside the stage. `cuts`
/// are the first operators of the stages but the first; `recomputed` are operators of the model, ascending. Throws Error for a size without
/// a table, cuts that leave a stage empty, and operators that can't be recomputed.
[[nodiscard]] AcesoPlan rate_aceso(const AcesoProblem& problem, int samples, const std::vector<int>& cuts,
                                   const std::vector<int>& recomputed);

struct AcesoResult {
  std::vector<AcesoPlan> best;  ///< one plan, or none where none fits
  /// No micro-batch size, cuts and recomputation that fit take less. Equal to the best step if `complete`.
  std::int64_t lower_bound_ns = 0;
  bool complete = false;
  int sweeps = 0;
  std::int64_t recomputations = 0;  ///< ranges whose least recomputation was sought
  /// best / lower bound - 1 (gap.h); infinite without a plan or a bound.
  [[nodiscard]] double gap() const;
};

/// Returns the best plan of all, with a proof. For each micro-batch size the cuts are found by the sweep of chain_sweep.h. A range of
/// operators costs as a stage the least recomputation that makes it fit, found among the sets of runs that no other set beats in time,
/// bytes saved and bytes held again (pieces that repeat are solved once). At most a few million of these sets are kept at a time. Where
/// there are more, or `most_sets` are spent, the least recomputation may be missed, and the result is not `complete`: its bound knows no
/// more of recomputation than the most bytes that any run saves in a nanosecond. The result is deterministic; ties go to the smaller
/// micro-batch, then follow the order of chain_sweep.h. Throws Error for an empty problem, tables of different operators, a batch that no
/// size divides, more devices than operators, and as check_chain_memory() does.
[[nodiscard]] AcesoResult plan_aceso(const AcesoProblem& problem);

}  // namespace mptune::planner
