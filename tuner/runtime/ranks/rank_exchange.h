#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/runtime/graph/bound_graph.h"

namespace mptune::tuner {

/// Exchanges what ranks tell each other in a step besides the messages of stages: values of parameters, gradients of replicas and of tied
/// weights, statistics, losses. All functions wait for the other side; those for one stage and replica are called by one thread at a time.
/// Throws what RankGroup::receive() throws.
class RankExchange {
 public:
  /// `graph` outlives this. Requires: the graph has ranks. Waits for the ranks with which this one all-reduces.
  explicit RankExchange(BoundGraph& graph);

  /// What travels between ranks that have replicas of a stage.
  enum class Of { parameters, buffers, gradients, sums, statistics, which_gradients };
  void send(Of what, int stage, int replica, int to, const Tensors& tensors);
  [[nodiscard]] Tensors receive(Of what, int stage, int replica, int from);
  /// Send and receive gradients, which nobody changes before the ranks have exchanged the losses of the step: RankStreams::send_in_place().
  /// The rank that gets them adds them up, or receives them into `places`.
  void send_gradients(Of what, int stage, int replica, int to, const Tensors& gradients);
  [[nodiscard]] Tensors receive_gradients(Of what, int stage, int replica, int from, const Tensors& places = {});

  /// Adds to the gradients of a stage's parameters those of all other ranks that train it. All ranks then have the same bits; a gradient is
  /// missing only where no rank has it. Requires: this rank trains the stage, and others do, too.
  void all_reduce(int stage, const Tensors& parameters);

  /// Send and receive, for the tied weight with this number and its copy in a later stage, the weight's value or the copy's gradient.
  void send_tied(bool gradient, int weight, int stage, int to, const at::Tensor& tensor);
  [[nodiscard]] at::Tensor receive_tied(bool gradient, int weight, int stage, int from);

  /// Adds up what all ranks give, element by element. Every rank gives equally many numbers.
  [[nodiscard]] std::vector<double> sum_of(const std::vector<double>& own);
  /// Gives every rank the tensors of rank `from`, which has them; the others pass none.
  [[nodiscard]] Tensors from_one(int from, const Tensors& own);
  /// Gives rank `to` the tensors of all ranks, by rank; the others get nothing.
  [[nodiscard]] std::vector<Tensors> to_one(int to, const Tensors& own);

 private:
  void fill_gradients(int stage, const Tensors& parameters);
  [[nodiscard]] int tag_of(Of what, int stage, int replica) const;
  [[nodiscard]] int tag_of_tied(bool gradient, int weight, int stage) const;

  BoundGraph& graph_;
  RankStreams& streams_;
  int after_links_ = 0;    ///< the first tag that no link has
  int most_replicas_ = 0;  ///< the most that a stage has
};

}  // namespace mptune::tuner
