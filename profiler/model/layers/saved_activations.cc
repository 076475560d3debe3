#include "profiler/model/layers/saved_activations.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <map>
#include <mutex>
#include <set>
#include <typeinfo>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {

struct SavedActivations::State {
  /// One tensor that autograd saved. While its memory is given up, `tensor` is undefined.
  struct Movable {
    at::Tensor tensor;
    at::TensorOptions options;
    std::vector<std::int64_t> sizes, strides;
    std::int64_t offset = 0;
    std::int64_t version = 0;  ///< when it was saved
    const c10::StorageImpl* block = nullptr;
  };

  std::set<const c10::StorageImpl*> kept;
  std::vector<std::weak_ptr<Movable>> tensors;             ///< autograd owns them
  std::vector<std::vector<std::weak_ptr<Movable>>> freed;  ///< by block of storages()
};

namespace {

using MovableTensor = SavedActivations::State::Movable;
using MovablePtr = std::shared_ptr<MovableTensor>;

bool can_move(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage() && tensor.storage().nbytes() > 0 && !tensor.is_conj() && !tensor.is_neg();
}

MovablePtr movable(const at::Tensor& tensor) {
  return std::make_shared<MovableTensor>(MovableTensor{tensor.detach(), tensor.options().requires_grad(std::nullopt), tensor.sizes().vec(),
                                                       tensor.strides().vec(), tensor.storage_offset(), tensor._version(),
                                                       tensor.storage().unsafeGetStorageImpl()});
}

thread_local SavedActivations::State* collecting = nullptr;

class SavingHooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SavingHooks(SavedActivations::State& state) : state_(state) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    if (!can_move(tensor) || state_.kept.contains(tensor.storage().unsafeGetStorageImpl())) {
      tensor_ = std::make_shared<MovableTensor>(MovableTensor{tensor.detach(), {}, {}, {}, 0, tensor._version(), nullptr});
      return;
    }
    tensor_ = movable(tensor);
    state_.tensors.push_back(tensor_);
  }

  at::Tensor call_unpack_hook() override {
    const at::Tensor& tensor = tensor_->tensor;
    TORCH_CHECK(tensor.defined(), "a saved activation is needed while its memory is given up");
    TORCH_CHECK(tensor._version() == tensor_->version,
                "one of the variables needed for gradient computation has been modified by an inplace operation");
    return tensor;
  }

 private:
  SavedActivations::State& state_;  // used while collecting only
  MovablePtr tensor_;
};

// Autograd asks the default engine whether to call hooks when it saves a tensor. Backwards run in LibTorch's own engine, which has the
// threads of the GPUs: a second engine would start none.
class SavingEngine final : public torch::autograd::Engine {
 public:
  explicit SavingEngine(Engine& runs) : runs_(runs) {}
  ~SavingEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return collecting != nullptr ? std::make_unique<SavingHooks>(*collecting) : nullptr;
  }
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots, const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    return runs_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(const std::shared_ptr<torch::autograd::GraphTask>& graph_task,
                                                                 std::shared_ptr<torch::autograd::Node> graph_root,
                                                                 torch::autograd::InputBuffer&& input_buffer) override {
    return runs_.execute_with_graph_task(graph_task, std::move(graph_root), std::move(input_buffer));
  }

 private:
  Engine& runs_;
};

// LibTorch leaks its own engine, too: threads of backwards may outlive static objects.
torch::autograd::Engine& saving_engine() {
  static auto* engine = new SavingEngine(torch::autograd::Engine::get_base_engine());
  return *engine;
}

void use_saving_engine() {
  static std::once_flag once;
  std::call_once(once, [] {
    const torch::autograd::Engine& engine = torch::autograd::Engine::get_default_engine();
    if (typeid(engine) != typeid(torch::autograd::Engine))
      throw Error("another autograd engine than LibTorch's own runs in this process", "saved activations in host memory",
                  "use a plan that offloads no stage (--no-offload), or recompute instead", ExitCode::environment);
    torch::autograd::set_default_engine_stub(saving_engine);
  });
}

class Collecting final : public SavedActivations::Scope {
 public:
  explicit Collecting(SavedActivations::State& state) { collecting = &state; }
  ~Collecting() override { collecting = nullptr; }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
};

at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  return at::empty({0}, tensor.options().dtype(at::kByte)).set_(tensor.storage(), 0, {bytes}, {1});
}

}  // namespace

SavedActivations::SavedActivations(const std::vector<at::Tensor>& kept) : state_(std::make_shared<State>()) {
  for (const at::Tensor& tensor : kept)
    if (tensor.defined() && tensor.has_storage()) state_->kept.insert(tensor.storage().unsafeGetStorageImpl());
}

SavedActivations::~SavedActivations() = default;

std::unique_ptr<SavedActivations::Scope> SavedActivations::collect() {
  use_saving_engine();
  return std::make_unique<Collecting>(*state_);
}

std::vector<at::Tensor> SavedActivations::storages() {
  const at::NoGradGuard no_gradients;
  std::map<const c10::StorageImpl*, std::size_t> index_of;
  std::set<const c10::StorageImpl*> changed;
  for (const auto& weak : state_->tensors)
    if (const MovablePtr saved = weak.lock(); saved && saved->tensor._version() != saved->version) changed.insert(saved->block);
  std::vector<at::Tensor> bytes;
  state_->freed.clear();
  for (const auto& weak : state_->tensors) {
    const MovablePtr saved = weak.lock();
    if (!saved || changed.contains(saved->block)) continue;
    const auto [found, is_new] = index_of.emplace(saved->block, bytes.size());
    if (is_new) {
      bytes.push_back(bytes_of(saved->tensor));
      state_->freed.emplace_back();
    }
    state_->freed[found->second].push_back(weak);
  }
  state_->tensors.clear();
  return bytes;
}

void SavedActivations::free() {
  for (const auto& of_block : state_->freed)
    for (const auto& weak : of_block)
      if (const MovablePtr saved = weak.lock()) saved->tensor.reset();
}

void SavedActivations::restore(const std::vector<at::Tensor>& copies) {
  const at::NoGradGuard no_gradients;
  for (std::size_t block = 0; block < state_->freed.size(); ++block)
    for (const auto& weak : state_->freed[block]) {
      const MovablePtr saved = weak.lock();
      if (!saved) continue;
      saved->tensor = at::empty({0}, saved->options).set_(copies.at(block).storage(), saved->offset, saved->sizes, saved->strides);
      saved->version = saved->tensor._version();
    }
}

}  // namespace mptune::profiler
