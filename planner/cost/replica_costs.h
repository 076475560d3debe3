#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/cost/cost_model.h"

namespace mptune::planner {

/// Returns which of a stage's replicas on these devices add up the gradients, in parallel, each for an equal part of the parameters. On
/// one rank all replicas do, unless the first is a GPU (of a class "cuda", "cuda/2"), which then does it alone. On several ranks those
/// that update the parameters do. Replicas are given by position in `devices`.
[[nodiscard]] std::vector<int> summing_replicas(const CostModel& cost, std::span<const int> devices);

/// Returns the most summing replicas that there can be with the first replica on this device.
[[nodiscard]] int most_summing_replicas(const CostModel& cost, int first_device, int replicas);

/// Returns which of a stage's replicas on these devices update the parameters: the first replica of each rank, each with the whole sum.
/// The first replica does it alone where devices are of two kinds, as their optimizers round differently. On paper all replicas do.
/// Replicas are given by position in `devices`.
[[nodiscard]] std::vector<int> updating_replicas(const CostModel& cost, std::span<const int> devices);

/// Returns the seconds that summing one layer's gradients takes `device`, one of the `summing` replicas, including the refresh of the
/// replicas' parameters in the host's memory; in whole nanoseconds.
[[nodiscard]] double reduce_seconds(const CostModel& cost, int device, int layer, int replicas, int summing);

/// Returns the seconds that a stage's messages between ranks take the busiest of these devices, one message after another; 0 where all
/// replicas are of one rank. `bytes` is the size of the parameters, and of their gradients. Each of R ranks that update the parameters
/// gets one of R parts of the gradients of all replicas elsewhere, and sends its sum to the other ranks. If one rank alone updates them,
/// it gets all gradients, and sends the parameters to each of the other ranks.
[[nodiscard]] double replica_messages_seconds(const CostModel& cost, std::span<const int> devices, std::int64_t bytes);

/// Returns the seconds that a layer's gradients take from the memories of the other replicas to the first one's, replica after replica,
/// and its parameters to all others at the same time, tensor by tensor; in whole nanoseconds. 0 in the host's memory, on paper, and where
/// the replicas are of several ranks.
[[nodiscard]] double replica_copies_seconds(const CostModel& cost, std::span<const int> devices, int layer);

}  // namespace mptune::planner
