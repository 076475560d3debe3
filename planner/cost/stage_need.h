#pragma once

#include <cstdint>

#include "planner/cost/cost_model.h"

namespace mptune::planner {

/// What layers of a stage need on a device for one micro-batch, in bytes. In these sums l is a layer of the stage and W its workspace:
///
///     forward            saved(first .. l) + W(l)
///     backward           saved(first .. l) + W(l) + the gradient of l's output, less the output if l's backward does not need it
///     first backward     the same with W of a backward that makes gradients, and the gradients of the parameters after l
///     input gradients    what a backward needs, and what the layers after l hold for their weight gradients
///     weight gradients   held(first .. last) + W(l); the first ones also gradients of parameters, in the order that needs most
///
/// With tied weights, a whole backward and the weight gradients of a split one also hold the gradient that a later layer has made, until
/// the gradient of the earlier layer is added to it.
struct StageNeed {
  std::int64_t saved = 0;    ///< from the forward to the backward
  std::int64_t held = 0;     ///< between the parts of a split backward
  std::int64_t forward = 0;  ///< most bytes above `saved`, like the next four
  std::int64_t backward = 0;
  std::int64_t first_backward = 0;
  std::int64_t unfreed_backward = 0;  ///< this and the next: where a backward frees none of what is saved
  std::int64_t unfreed_first_backward = 0;
  std::int64_t input = 0;  ///< most bytes above `held`, like the next two
  std::int64_t weight = 0;
  std::int64_t first_weight = 0;
};

/// Returns the need of the layers [first, last). Only with `split` it has what the parts of a split backward need; otherwise that is 0.
[[nodiscard]] StageNeed stage_need(const CostModel& cost, int device, int first_layer, int last_layer, int samples, bool split);

/// What the layers of a stage need for one micro-batch that it recomputes, in bytes. Neighbouring layers form a piece where all of them are
/// kept, or all are computed again. In the forward, pieces that will run again run without gradients: a layer needs its input and what it
/// makes. In a whole backward these pieces run again one by one, from the last to the first, each when the backward comes to it. So at most
/// one of them is held beside what is kept:
///
///     layers       0  1  2  3  4      1, 3 and 4 are computed again
///     backward     F3 F4 B4 B3  B2  F1 B1  B0
struct RecomputedNeed {
  std::int64_t kept = 0;            ///< from the forward to the backward
  std::int64_t forward = 0;         ///< most bytes above `kept`
  std::int64_t piece = 0;           ///< what the largest piece holds while it runs again
  std::int64_t backward = 0;        ///< most bytes above `kept` and `piece`, like the next one
  std::int64_t first_backward = 0;  ///< where the backward makes the gradients of the parameters
  std::int64_t again = 0;           ///< what all layers save that are computed again; a split backward holds all of it
};

/// Returns what the stage's layers need. Requires: the stage recomputes layers.
[[nodiscard]] RecomputedNeed recomputed_need(const CostModel& cost, int device, const Stage& stage, int samples);

/// Returns the bytes of a layer's output that is free as soon as the next layers are done with it; 0 if the layer's own backward needs it.
[[nodiscard]] std::int64_t dropped_output(const CostModel& cost, int device, int layer, int samples);

/// Returns the bytes kept from forward to backward of one micro-batch by a stage with its recomputation: what the layers that are not
/// recomputed save, their outputs included, and the inputs of those after recomputed layers. The stage's own input is not counted.
[[nodiscard]] std::int64_t kept_bytes(const CostModel& cost, int device, const Stage& stage, int samples);

/// Returns the bytes that a stage's layers save for one micro-batch's backward, its own input not counted. These bytes are copied where
/// they lie in host memory between forward and backward.
[[nodiscard]] std::int64_t offloaded_bytes(const CostModel& cost, int device, const Stage& stage, int samples);

/// Returns the bytes of a layer's parameters whose gradients the input gradients make.
[[nodiscard]] std::int64_t unsplit_bytes(const CostModel& cost, int layer);

/// Micro-batches whose weight gradients are fused.
struct FusedGroup {
  int microbatches = 1;
  int largest_samples = 0;  ///< samples of the largest micro-batch
  int samples = 0;          ///< samples of all of them
};

/// Returns the most bytes that a layer's fused convolutions take beside what is held: their inputs and gradients of all micro-batches side
/// by side, and the workspace of one micro-batch of all samples. Where it is unknown which convolutions are fused, each micro-batch counts
/// no more bytes than the layer's parameters.
[[nodiscard]] std::int64_t fused_bytes(const CostModel& cost, int device, int layer, const FusedGroup& group);

}  // namespace mptune::planner
