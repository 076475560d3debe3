#include "profiler/model/layers/split_backward.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "profiler/base/index.h"
#include "profiler/model/layers/autograd_nodes.h"

namespace mptune::profiler {

namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;
namespace generated = torch::autograd::generated;

at::Tensor scaled(const at::Tensor& gradient, const at::Scalar& alpha) {
  return alpha.toComplexDouble() == c10::complex<double>(1) ? gradient : gradient * alpha;
}

/// True if a matrix of this shape lies in memory column by column.
bool is_transposed(const std::vector<c10::SymInt>& sizes, const std::vector<c10::SymInt>& strides) {
  return strides[0] == 1 && strides[1] == sizes[0];
}

// Each product below computes weight gradients by the formula of its node in LibTorch (derivatives.yaml, FunctionsManual.cpp), so that the
// bits agree.
struct Gradients {
  at::Tensor weight;
  at::Tensor bias;
};

/// Y = mat1 mat2, where one of the two is the weight.
struct MatrixProduct {
  Saved input;  ///< the factor that is not the weight
  bool weight_is_first;
  bool weight_transposed;  ///< in memory
  at::Scalar alpha = 1;

  [[nodiscard]] Gradients operator()(const at::Tensor& gradient) const {
    const at::Tensor& x = input.checked();
    at::Tensor made;
    if (weight_is_first)
      made = weight_transposed ? x.mm(gradient.t()).t() : gradient.mm(x.t());
    else
      made = weight_transposed ? gradient.t().mm(x).t() : x.t().mm(gradient);
    return {scaled(made, alpha), {}};
  }
  /// Adds the weight's gradient to `sum`, which has the weight's form.
  void add_to(at::Tensor sum, const at::Tensor& gradient) const {
    const at::Tensor& x = input.checked();
    weight_is_first ? sum.addmm_(gradient, x.t(), 1, alpha) : sum.addmm_(x.t(), gradient, 1, alpha);
  }
  [[nodiscard]] double multiplications(const at::Tensor& gradient) const {
    return static_cast<double>(gradient.numel()) * static_cast<double>(weight_is_first ? input.tensor().size(0) : input.tensor().size(1));
  }
};

/// Y = mat1 mat2 for batches of matrices.
struct BatchedProduct {
  Saved input;
  bool weight_is_first;

  [[nodiscard]] Gradients operator()(const at::Tensor& gradient) const {
    const at::Tensor transposed = input.checked().transpose(1, 2);
    return {weight_is_first ? gradient.bmm(transposed) : transposed.bmm(gradient), {}};
  }
  [[nodiscard]] double multiplications(const at::Tensor& gradient) const {
    return static_cast<double>(gradient.numel()) * static_cast<double>(input.tensor().size(weight_is_first ? 1 : 2));
  }
};

struct Convolution {
  Saved input;
  Saved weight;
  std::vector<std::int64_t> bias_sizes, stride, padding, dilation, output_padding;
  bool transposed;
  std::int64_t groups;
  bool has_bias;

  [[nodiscard]] Gradients operator()(const at::Tensor& gradient) const { return made_of(gradient, input.checked()); }
  [[nodiscard]] Gradients made_of(const at::Tensor& gradient, const at::Tensor& x) const {
    const at::OptionalIntArrayRef bias = has_bias ? at::OptionalIntArrayRef(bias_sizes) : at::OptionalIntArrayRef();
    auto made = at::convolution_backward(gradient, x, weight.checked(), bias, stride, padding, dilation, transposed, output_padding, groups,
                                         {false, true, has_bias});
    return {std::move(std::get<1>(made)), std::move(std::get<2>(made))};
  }
  [[nodiscard]] double multiplications(const at::Tensor& gradient) const {
    const at::Tensor& pixels = transposed ? input.tensor() : gradient;
    return static_cast<double>(pixels.numel()) * static_cast<double>(weight.tensor().numel()) /
           static_cast<double>(weight.tensor().size(0));
  }
  [[nodiscard]] bool fuses(const at::Tensor& gradient) const {
    return !transposed && weight.tensor().numel() >= input.tensor().numel() + gradient.numel();
  }
  /// True if the two convolutions differ in their samples only.
  [[nodiscard]] bool is_like(const Convolution& other) const {
    const auto settings = [](const Convolution& c) { return std::tie(c.stride, c.padding, c.dilation, c.groups, c.has_bias); };
    return settings(*this) == settings(other) && input.tensor().sizes().slice(1) == other.input.tensor().sizes().slice(1);
  }
};

struct Embedding {
  Saved input;  ///< indices
  std::int64_t rows, padding;
  bool scale_by_frequency;

  [[nodiscard]] Gradients operator()(const at::Tensor& gradient) const {
    return {at::embedding_dense_backward(gradient, input.checked(), rows, padding, scale_by_frequency), {}};
  }
  [[nodiscard]] static double multiplications(const at::Tensor& gradient) { return static_cast<double>(gradient.numel()); }
};

template <class Product>
class SetAside final : public WeightGradient {
 public:
  SetAside(Product product, Node& node, PathToParameter weight, std::optional<PathToParameter> bias)
      : WeightGradient(weight.accumulator().variable),
        product_(std::move(product)),
        weight_path_(std::move(weight)),
        bias_path_(std::move(bias)),
        gradient_(std::make_shared<at::Tensor>()) {
    node.add_pre_hook(std::make_unique<KeepGradient>(gradient_));
  }

  [[nodiscard]] double multiplications() const override {
    return gradient_->defined() && product_ ? product_->multiplications(*gradient_) : 0;
  }

  void run() override {
    // Otherwise the accumulator would add out of place.
    const at::NoGradGuard no_grad;
    if (gradient_->defined()) {
      Gradients made = (*product_)(*gradient_);
      gradient_->reset();
      product_.reset();
      weight_path_.add(std::move(made.weight));
      if (bias_path_) bias_path_->add(std::move(made.bias));
    }
    product_.reset();
  }

  [[nodiscard]] bool fuses() const override {
    if constexpr (std::is_same_v<Product, Convolution>)
      return product_ && gradient_->defined() && product_->fuses(*gradient_) && has_type_of_weight(product_->input.tensor());
    else
      return false;
  }

  [[nodiscard]] std::vector<at::Tensor> held() const override {
    if (!product_ || !gradient_->defined()) return {};
    return {product_->input.tensor(), *gradient_};
  }

 protected:
  void run_onto() override {
    if constexpr (std::is_same_v<Product, MatrixProduct>) {
      const at::NoGradGuard no_grad;
      at::Tensor sum = weight().grad();
      if (sum.defined() && gradient_->defined() && weight_path_.is_short() && has_type_of_weight(sum) && has_type_of_weight(*gradient_) &&
          has_type_of_weight(product_->input.tensor())) {
        product_->add_to(weight_path_.nodes.size() == 1 ? sum : sum.t(), *gradient_);
        drop();
        return;
      }
    }
    run();
  }

  bool run_as_one(WeightGradients& gradients) override {
    if constexpr (std::is_same_v<Product, Convolution>) {
      std::vector<at::Tensor> inputs, outputs;
      for (const auto& gradient : gradients) {
        const auto* other = dynamic_cast<const SetAside*>(gradient.get());
        if (other == nullptr || !other->fuses() || !product_->is_like(*other->product_)) return false;
        inputs.push_back(other->product_->input.checked());
        outputs.push_back(*other->gradient_);
      }
      const at::NoGradGuard no_grad;
      Gradients made = product_->made_of(at::cat(outputs), at::cat(inputs));
      inputs.clear();
      outputs.clear();
      for (const auto& gradient : gradients)
        if (gradient.get() != this) static_cast<SetAside&>(*gradient).drop();
      gradient_->reset();
      product_.reset();
      weight_path_.add(std::move(made.weight));
      if (bias_path_) bias_path_->add(std::move(made.bias));
      return true;
    } else {
      return WeightGradient::run_as_one(gradients);
    }
  }

 private:
  // False under autocast, which converts the weight.
  [[nodiscard]] bool has_type_of_weight(const at::Tensor& tensor) const { return tensor.scalar_type() == weight().scalar_type(); }

  void drop() {
    gradient_->reset();
    product_.reset();
    weight_path_.nodes.clear();
    if (bias_path_) bias_path_->nodes.clear();
  }

  std::optional<Product> product_;
  PathToParameter weight_path_;
  std::optional<PathToParameter> bias_path_;
  std::shared_ptr<at::Tensor> gradient_;
};

std::vector<std::int64_t> integers(at::ArrayRef<c10::SymInt> values) {
  std::vector<std::int64_t> all;
  for (const c10::SymInt& value : values) all.push_back(value.expect_int());
  return all;
}

class Splitter {
 public:
  Splitter(const GraphPiece& piece, const std::vector<at::Tensor>& kept) : users_(piece.roots), piece_(piece), kept_(kept) {}

  WeightGradients run() {
    for (Node* node : users_.in_backward_order()) split(*node);
    return std::move(made_);
  }

 private:
  void split(Node& node) {
    if (!node.post_hooks().empty()) return;
    if (auto* addmm = as<generated::AddmmBackward0>(node))
      split_matrices(*addmm, 1, 2, addmm->mat1_, addmm->mat1_sym_sizes, addmm->mat1_sym_strides, addmm->mat2_, addmm->mat2_sym_sizes,
                     addmm->mat2_sym_strides, addmm->alpha);
    else if (auto* mm = as<generated::MmBackward0>(node))
      split_matrices(*mm, 0, 1, mm->self_, mm->self_sym_sizes, mm->self_sym_strides, mm->mat2_, mm->mat2_sym_sizes, mm->mat2_sym_strides,
                     1);
    else if (auto* bmm = as<generated::BmmBackward0>(node))
      split_batched(*bmm);
    else if (auto* convolution = as<generated::ConvolutionBackward0>(node))
      split_convolution(*convolution);
    else if (auto* underscored = as<generated::ConvolutionBackward1>(node))
      split_convolution(*underscored);
    else if (auto* embedding = as<generated::EmbeddingBackward0>(node))
      split_embedding(*embedding);
    else if (auto* own = dynamic_cast<SplittableNode*>(&node))
      split_own(*own);
  }

  template <class Type>
  static Type* as(Node& node) {
    return typeid(node) == typeid(Type) ? static_cast<Type*>(&node) : nullptr;
  }

  template <class MatrixNode>
  void split_matrices(MatrixNode& node, std::size_t first, std::size_t second, const torch::autograd::SavedVariable& mat1,
                      const std::vector<c10::SymInt>& sizes1, const std::vector<c10::SymInt>& strides1,
                      const torch::autograd::SavedVariable& mat2, const std::vector<c10::SymInt>& sizes2,
                      const std::vector<c10::SymInt>& strides2, const at::Scalar& alpha) {
    if (auto path = path_behind(node, second)) {
      set_aside(MatrixProduct{Saved(mat1), false, is_transposed(sizes2, strides2), alpha}, node, second, std::move(*path));
    } else if (auto before = path_behind(node, first)) {
      set_aside(MatrixProduct{Saved(mat2), true, is_transposed(sizes1, strides1), alpha}, node, first, std::move(*before));
    }
  }

  void split_batched(generated::BmmBackward0& node) {
    if (auto path = path_behind(node, 1))
      set_aside(BatchedProduct{Saved(node.self_), false}, node, 1, std::move(*path));
    else if (auto before = path_behind(node, 0))
      set_aside(BatchedProduct{Saved(node.mat2_), true}, node, 0, std::move(*before));
  }

  template <class ConvolutionNode>
  void split_convolution(ConvolutionNode& node) {
    auto weight = path_behind(node, 1);
    if (!weight) return;
    const bool has_bias = node.next_edges().size() > 2 && node.next_edge(2).is_valid();
    auto bias = has_bias ? path_behind(node, 2) : std::nullopt;
    // oneDNN computes the weight gradient with the bias gradient: a bias that stays in the backward would compute the weight's twice.
    if (has_bias && !bias) return;
    Convolution product{Saved(node.input_),
                        Saved(node.weight_),
                        {},
                        integers(node.stride),
                        integers(node.padding),
                        integers(node.dilation),
                        integers(node.output_padding),
                        node.transposed,
                        node.groups.expect_int(),
                        has_bias};
    if (node.bias_sym_sizes_opt.list) product.bias_sizes = integers(*node.bias_sym_sizes_opt.list);
    if (has_bias) node.next_edges()[2] = Edge();
    set_aside(std::move(product), node, 1, std::move(*weight), std::move(bias));
  }

  void split_embedding(generated::EmbeddingBackward0& node) {
    if (node.sparse) return;
    if (auto path = path_behind(node, 0))
      set_aside(
          Embedding{Saved(node.indices_), node.weight_sym_argsize_0.expect_int(), node.padding_idx.expect_int(), node.scale_grad_by_freq},
          node, 0, std::move(*path));
  }

  void split_own(SplittableNode& node) {
    auto path = path_behind(node, node.weight_edge());
    if (!path) return;
    node.next_edges()[node.weight_edge()] = Edge();
    const at::Tensor weight = path->accumulator().variable;
    made_.push_back(node.set_aside(weight, [path = *path](at::Tensor gradient) mutable { path.add(std::move(gradient)); }));
  }

  template <class Product>
  void set_aside(Product product, Node& node, std::size_t edge, PathToParameter weight, std::optional<PathToParameter> bias = {}) {
    node.next_edges()[edge] = Edge();
    made_.push_back(std::make_unique<SetAside<Product>>(std::move(product), node, std::move(weight), std::move(bias)));
  }

  /// Returns the path along an edge of a product, if it leads to a parameter that nothing else in the piece uses.
  [[nodiscard]] std::optional<PathToParameter> path_behind(Node& product, std::size_t edge) const {
    PathToParameter path;
    std::shared_ptr<Node> node = product.next_edge(edge).function;
    while (node && users_.only_one(*node) && !has_hooks(*node)) {
      path.nodes.push_back(node);
      if (const auto* accumulator = as<AccumulateGrad>(*node)) return may_leave(*accumulator) ? std::optional(path) : std::nullopt;
      if (!passes_gradient_on(*node)) return std::nullopt;
      node = node->next_edge(0).function;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool may_leave(const AccumulateGrad& accumulator) const {
    const at::Tensor& parameter = accumulator.variable;
    const auto is_parameter = [&](const at::Tensor& other) { return other.is_same(parameter); };
    return accumulator.tensor_post_acc_grad_hooks() == nullptr && !parameter.is_complex() && parameter.layout() == at::kStrided &&
           std::ranges::none_of(piece_.inputs, is_parameter) && std::ranges::none_of(kept_, is_parameter);
  }

  Users users_;
  const GraphPiece& piece_;
  const std::vector<at::Tensor>& kept_;
  WeightGradients made_;
};

}  // namespace

void run_together(WeightGradients& gradients) {
  if (gradients.size() == 1) return gradients.front()->run();
  if (gradients.front()->run_as_one(gradients)) return;
  for (const auto& gradient : gradients) gradient->run_onto();
}

WeightGradients set_weights_aside(const GraphPiece& piece, const std::vector<at::Tensor>& kept) {
  return Splitter(piece, kept).run();
}

}  // namespace mptune::profiler
