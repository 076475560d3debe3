#pragma once

#include <cstdint>

#include <torch/nn/cloneable.h>
#include <torch/types.h>

/// Modules of the built-in models, with torch::nn's parameter names. Unlike torch::nn modules they draw no random numbers when they are
/// created: weights come from the model's own generator, and cloning only copies.
namespace mptune::profiler {

/// Convolution over a square window, padded by half of it.
class Convolution final : public torch::nn::Cloneable<Convolution> {
 public:
  Convolution(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t stride, bool with_bias = false);
  void reset() override;
  at::Tensor forward(const at::Tensor& input) const;
  /// Initialises as torchvision does: normal with variance 2 / fan_out, zero bias.
  void initialise(at::Generator& generator);

  at::Tensor weight;
  at::Tensor bias;

 private:
  std::int64_t in_, out_, window_, stride_;
  bool with_bias_;
};

/// Transposed convolution that doubles both sides: a 2x2 window with stride 2, with bias.
class TransposedConvolution final : public torch::nn::Cloneable<TransposedConvolution> {
 public:
  TransposedConvolution(std::int64_t in, std::int64_t out);
  void reset() override;
  at::Tensor forward(const at::Tensor& input) const;
  /// Initialises as torch::nn::ConvTranspose2d does: uniform within +-1 / sqrt(out x 4).
  void initialise(at::Generator& generator);

  at::Tensor weight;
  at::Tensor bias;

 private:
  std::int64_t in_, out_;
};

class Dense final : public torch::nn::Cloneable<Dense> {
 public:
  Dense(std::int64_t in, std::int64_t out, bool with_bias = true);
  void reset() override;
  at::Tensor forward(const at::Tensor& input) const;
  /// Initialises as torch::nn::Linear does: uniform within +-1 / sqrt(in).
  void initialise(at::Generator& generator);
  /// Initialises as GPT does: normal weights, zero bias.
  void initialise_normal(at::Generator& generator, double deviation);

  at::Tensor weight;
  at::Tensor bias;

 private:
  std::int64_t in_, out_;
  bool with_bias_;
};

/// An embedding: a table of vectors, indexed by integers.
class Table final : public torch::nn::Cloneable<Table> {
 public:
  Table(std::int64_t rows, std::int64_t width);
  void reset() override;
  void initialise(at::Generator& generator, double deviation);

  at::Tensor weight;

 private:
  std::int64_t rows_, width_;
};

/// Converts a module's floating-point parameters and buffers to `type`. Integers stay; Module::to would convert them, too.
void convert(torch::nn::Module& module, at::ScalarType type);

}  // namespace mptune::profiler
