#pragma once

#include <array>
#include <string>
#include <vector>

namespace mptune {

/// Which process of a training this is. A process that was started alone is rank 0 of 1.
struct RankPlace {
  int rank = 0;
  int ranks = 1;
  std::string address = {};  ///< where rank 0 can be reached, "" for a process that was started alone
  int port = 0;              ///< of the store where ranks find each other
  bool store_runs = false;   ///< the launcher runs that store, not rank 0
  int attempt = 0;           ///< how often the launcher has started the ranks again
  std::string token = {};    ///< known to these ranks alone: signs what they leave in the store; "" for none
  bool operator==(const RankPlace&) const = default;
};

/// How gradients of a stage's replicas on several ranks are added up.
enum class Reduce {
  ordered,     ///< in the order of the replicas, bit for bit as one process does: each rank adds up a part of them for all
  all_reduce,  ///< by an all-reduce of Gloo or NCCL, equal to `ordered` within rounding
};
/// The names in options and messages.
inline constexpr std::array kReduceNames = {"ordered", "all-reduce"};

/// Returns the place as torchrun gives it in the environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE,
/// TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_RUN_ID (the token, unless MPTUNE_RANKS_TOKEN is set). Throws Error if these do not describe a
/// rank among others.
[[nodiscard]] RankPlace rank_place();

/// Returns how many processes these devices need: one more than the largest rank named.
[[nodiscard]] int ranks_of(const std::vector<std::string>& devices);

}  // namespace mptune
