#pragma once

#include <memory>

#include "profiler/base/rank.h"

namespace mptune::tuner {

class WorkerProcess;

/// Leads the ranks of a command, on rank 0: they serve the requests that it gives its own workers. Use from one thread, which outlives it.
class RankLead {
 public:
  /// Runs the store where the ranks meet, unless their launcher does. Throws Error (environment).
  explicit RankLead(const RankPlace& place);
  /// Without end(), the other ranks end as if the command had failed.
  ~RankLead();
  RankLead(const RankLead&) = delete;
  RankLead& operator=(const RankLead&) = delete;

  /// Ends the command with this code; the other ranks end with it, too.
  void end(int exit_code);

 private:
  std::unique_ptr<WorkerProcess> store_;
  bool ended_ = false;
};

/// On another rank: works on rank 0's requests until that ends. Returns how it ended. A request that fails here fails on rank 0, which says
/// so. Throws Error where rank 0 can't be reached or the machine is broken.
[[nodiscard]] int serve_ranks();

}  // namespace mptune::tuner
