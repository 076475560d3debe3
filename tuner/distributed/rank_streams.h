#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tuner/distributed/rank_group.h"
#include "tuner/distributed/tensor_layout.h"

namespace mptune::tuner {

/// Carries lists of tensors between ranks, in streams: those of one tag from one rank to another. How the tensors of a message lie travels
/// with the first of its `kind` (a number that both sides choose alike), and again where it has changed. Thread-safe; one thread at a time
/// for a stream.
///
///     first of a kind:   length, layout, [0 | tensors]         later:   [0 | tensors]         changed:   [1 | -], length, layout, [0 |
///     tensors]
class RankStreams {
 public:
  explicit RankStreams(std::shared_ptr<RankGroup> group) : group_(std::move(group)) {}

  [[nodiscard]] RankGroup& group() { return *group_; }
  /// Of host memory. Copies the tensors, and does not wait for the receiver.
  void send(int to, int tag, std::int64_t kind, const std::vector<at::Tensor>& tensors);
  /// Waits. The tensors are allocated by the calling thread. Throws what RankGroup::receive() throws.
  [[nodiscard]] std::vector<at::Tensor> receive(int from, int tag, std::int64_t kind);

  /// Every rank gives numbers, and gets those of all, by rank. `tag`: of this use alone. Throws what RankGroup::receive() throws.
  [[nodiscard]] std::vector<std::vector<double>> exchange(int tag, const std::vector<double>& own);

 private:
  using Layouts = std::map<std::int64_t, TensorLayout>;  ///< by kind
  [[nodiscard]] Layouts& layouts_of(bool sent, int other, int tag);
  void send_layout(int to, int tag, const TensorLayout& layout);
  [[nodiscard]] TensorLayout receive_layout(int from, int tag);

  std::shared_ptr<RankGroup> group_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, Layouts> sent_, received_;  ///< by rank and tag
};

}  // namespace mptune::tuner
