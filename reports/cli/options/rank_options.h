#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/base/rank.h"
#include "reports/cli/options/options.h"

namespace CLI {
class App;
}

namespace mptune::reports {

/// Adds --ranks and --reduce to a command whose devices may be those of several ranks.
void add_rank_options(CLI::App& command, DeviceOptions& options);

/// Runs a command whose devices may be those of several ranks, and returns its exit code. Starts the ranks of --ranks, each of which comes
/// here again. Calls `work` on rank 0, and without ranks; on other ranks, works for rank 0 until it ends. `model`: named in errors. Throws
/// Error for more or fewer ranks than were started, and for a rank that ends.
[[nodiscard]] int with_ranks(const DeviceOptions& options, const std::string& model, const std::function<int(const RankPlace&)>& work);

/// Throws Error unless each rank has a device, and each device a rank.
void check_ranks(const std::vector<std::string>& devices, const RankPlace& place);

/// Throws Error for an all-reduce where no device belongs to a rank.
void check_reduce(Reduce reduce, const std::vector<std::string>& devices);

}  // namespace mptune::reports
