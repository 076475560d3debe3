#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "profiler/base/rank.h"

namespace mptune::tuner {

enum class StoreRole { server, client };

/// The TCP store where the ranks of `place` meet: that part of it which is theirs (AuthenticatedStore), and which keeps nobody waiting
/// (PatientStore). A client waits for the server as long as `patience`. Throws what c10d and these two throw.
[[nodiscard]] c10::intrusive_ptr<c10d::Store> open_c10d_store(const RankPlace& place, StoreRole role, std::chrono::milliseconds patience);

}  // namespace mptune::tuner
