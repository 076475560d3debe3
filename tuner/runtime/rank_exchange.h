#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/runtime/bound_graph.h"

namespace mptune::tuner {

/// What ranks tell each other in a step beside the messages of stages: values of parameters, gradients of replicas and of tied weights,
/// statistics, losses. All functions wait for the other side; those of one stage and replica are called by one thread at a time.
/// Throws what RankGroup::receive() throws.
class RankExchange {
 public:
  /// `graph` outlives this. Requires: it has ranks. Waits for those with which this one all-reduces.
  explicit RankExchange(BoundGraph& graph);

  /// What travels between ranks that have replicas of a stage.
  enum class Of { parameters, buffers, gradients, sums, statistics, which_gradients };
  void send(Of what, int stage, int replica, int to, const Tensors& tensors);
  [[nodiscard]] Tensors receive(Of what, int stage, int replica, int from);
  /// The same of gradients, which nobody changes before the ranks have exchanged the losses of the step: RankStreams::send_in_place(). The
  /// rank that gets them adds them up, or has them in `places`.
  void send_gradients(Of what, int stage, int replica, int to, const Tensors& gradients);
  [[nodiscard]] Tensors receive_gradients(Of what, int stage, int replica, int from, const Tensors& places = {});

  /// Adds to the gradients of a stage's parameters those of all other ranks that train it: all then have the same bits, and none only where
  /// no rank has any. Requires: this rank trains it, and is not alone.
  void all_reduce(int stage, const Tensors& parameters);

  /// Of the tied weight with this number, its copy in a later stage: its value, or the copy's gradient.
  void send_tied(bool gradient, int weight, int stage, int to, const at::Tensor& tensor);
  [[nodiscard]] at::Tensor receive_tied(bool gradient, int weight, int stage, int from);

  /// Adds up what all ranks give, place by place. Every rank gives as many.
  [[nodiscard]] std::vector<double> sum_of(const std::vector<double>& own);
  /// Every rank gets the tensors of the one that has them, `from`; the others pass none.
  [[nodiscard]] Tensors from_one(int from, const Tensors& own);
  /// Rank `to` gets the tensors of all, by rank; the others get nothing.
  [[nodiscard]] std::vector<Tensors> to_one(int to, const Tensors& own);

 private:
  void fill_gradients(int stage, const Tensors& parameters);
  [[nodiscard]] int tag_of(Of what, int stage, int replica) const;
  [[nodiscard]] int tag_of_tied(bool gradient, int weight, int stage) const;

  BoundGraph& graph_;
  RankStreams& streams_;
  int after_links_ = 0;    ///< the first tag that no link has
  int most_replicas_ = 0;  ///< of a stage
};

}  // namespace mptune::tuner
