#pragma once

#include <cstdint>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/trace/values/profile.h"
#include "profiler/trace/values/profile_tensors.h"

namespace mptune {

/// The size of tensors that belong to a micro-batch.
struct TensorSize {
  std::int64_t bytes_per_sample = 0;
  std::int64_t fixed_bytes = 0;
  [[nodiscard]] std::int64_t bytes(int samples) const { return bytes_per_sample * samples + fixed_bytes; }
  TensorSize& operator+=(const TensorSize& other) {
    bytes_per_sample += other.bytes_per_sample;
    fixed_bytes += other.fixed_bytes;
    return *this;
  }
};

/// The tensors that layers read: the model's inputs, and what earlier layers compute.
class LayerTensors {
 public:
  /// Copies what it needs of the profile. Throws Error for edges that do not lead from a layer to a later one.
  explicit LayerTensors(const Profile& profile);

  /// Returns the tensors that layers compute and later layers read.
  [[nodiscard]] const std::vector<ProfileTensor>& all() const { return tensors_; }
  /// True if every layer reads what the one before it computes, and nothing else (profile_tensors.h).
  [[nodiscard]] bool is_chain() const { return is_chain_; }
  /// Returns what crosses the cut before layer `layer`, or with `gradients` the gradients that come back. A tensor that several layers
  /// after the cut read crosses it once, and crosses every cut up to the last of these layers.
  [[nodiscard]] const TensorSize& boundary(int layer, bool gradients) const { return (gradients ? gradients_ : outputs_)[as_index(layer)]; }
  /// Returns the bytes that a layer computes and later ones read.
  [[nodiscard]] std::int64_t made_bytes(int layer, int samples) const { return made_[as_index(layer)].bytes(samples); }
  /// True if the layer reads nothing that other layers compute, but inputs of the model.
  [[nodiscard]] bool reads_inputs(int layer) const { return reads_inputs_[as_index(layer)]; }
  /// Returns the bytes of one sample of the model's input, from the profile's shape; 0 where the profile does not say.
  [[nodiscard]] std::int64_t input_bytes_per_sample() const { return input_bytes_per_sample_; }

 private:
  void add(const ProfileTensor& tensor);

  std::vector<ProfileTensor> tensors_;
  bool is_chain_;
  std::vector<TensorSize> made_;       ///< per layer
  std::vector<bool> reads_inputs_;     ///< per layer
  std::vector<TensorSize> outputs_;    ///< by layer that the cut lies before; nothing at both ends
  std::vector<TensorSize> gradients_;  ///< by layer that the cut lies before; nothing at both ends
  std::int64_t input_bytes_per_sample_;
};

}  // namespace mptune
