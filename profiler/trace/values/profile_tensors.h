#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune {

/// What one layer computes and later layers read, from a profile's edges.
struct ProfileTensor {
  int maker = 0;  ///< layer
  std::int64_t bytes_per_sample = 0;
  std::int64_t fixed_bytes = 0;
  std::vector<int> readers;           ///< layers, ascending
  std::vector<int> several;           ///< readers in which more than one operator may read it
  std::vector<int> gradient_readers;  ///< readers whose gradient goes back, ascending
  bool operator==(const ProfileTensor&) const = default;
};

/// Returns the tensors that a profile's edges carry, by maker, size and reader. Edges of one producer and size are one tensor, unless they
/// lead to the same layer, which then reads several. Throws Error for edges that do not lead from a layer to a later one.
[[nodiscard]] std::vector<ProfileTensor> profile_tensors(const Profile& profile);

/// True if every layer but the first reads something that the layer before it computes, and no layer reads what earlier ones compute.
[[nodiscard]] bool is_chain(const Profile& profile);

/// Returns the same layers as a chain, in which each layer passes on what later layers read, as one tensor with and one without gradient.
[[nodiscard]] Profile as_chain(const Profile& profile);

/// Returns the same layers with only the edges from each to the next, if every layer has one with a gradient; else nullopt. A step of any
/// plan takes at least as long in the graph as in this chain: in the graph it copies more and waits for more.
[[nodiscard]] std::optional<Profile> backbone(const Profile& profile);

}  // namespace mptune
