#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/rank.h"

namespace mptune {

/// Thrown in what waits for other ranks once this one has given up.
struct RanksGivenUp : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "the ranks have given up"; }
};

/// The processes that train one model together: each has some of the plan's devices. Carries bytes between any two of them. Thread-safe.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  /// Sends contiguous host memory, and does not wait until the other rank has it. Requires: nobody changes it before then. Messages to a
  /// rank with one tag arrive in the order in which they were sent.
  virtual void send(int to, int tag, at::Tensor bytes) = 0;
  /// Waits for the next message with this tag, and fills `bytes`, whose size is the message's. One thread at a time for one rank and tag.
  /// Throws RanksGivenUp, or Error (environment) that names the rank which has ended or says nothing.
  virtual void receive(int from, int tag, const at::Tensor& bytes) = 0;
  /// Receives the next several messages, in order. An implementation may ask for all of them before it waits for the first.
  virtual void receive_all(int from, int tag, const std::vector<at::Tensor>& messages) {
    for (const at::Tensor& bytes : messages) receive(from, tag, bytes);
  }
  /// Adds up `numbers` of all `ranks`, of which this is one, place by place, and leaves the sums there: contiguous host memory, float or
  /// double, of one size on all ranks. All get the same bits. Waits for the others. `sum` tells sums apart that are made at the same time:
  /// calls for one `sum` have the same `ranks` in the same order on all ranks. The first call for a `sum` connects the ranks: all ranks
  /// make these first calls in one order, one at a time. Throws what receive() throws.
  virtual void all_reduce(const std::vector<int>& ranks, int sum, const at::Tensor& numbers) = 0;
  /// From now on receive() and all_reduce() throw RanksGivenUp. On other ranks they throw `why`, with this rank before its place, once they
  /// miss this one. The first rank that gives up counts.
  virtual void give_up(const Error& why) = 0;
};

/// Returns what another exception says, as an error that can be given to other ranks.
[[nodiscard]] Error error_for_ranks(const std::exception_ptr& exception);

struct RankOptions {
  std::string name = {};    ///< of the group: groups of other names do not meet, and live and end apart from each other
  double patience_s = 600;  ///< how long another rank may say nothing while this one waits for it, and for all of them to start
};

/// Joins the ranks of `place` over c10d's Gloo; returns when all are there. On one machine (an address of the loopback) they talk over
/// 127.0.0.1, else through the network interface of the host's name, or the one that GLOO_SOCKET_IFNAME names.
/// Throws Error (environment) where they do not meet in time.
[[nodiscard]] std::shared_ptr<RankGroup> join_ranks(const RankPlace& place, const RankOptions& options = {});

}  // namespace mptune
