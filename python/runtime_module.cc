// The extension module mptune._runtime: the C++ Pipeline over Python's own tensors. mptune/_pipeline.py is its face.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>
#include <unistd.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tuner/runtime/training/mptune.h"

#include "profiler/base/library_message.h"

namespace py = pybind11;

namespace mptune {
namespace {

constexpr const char* kCheckInputs = "check the batch and its types against the model, and the code of its layers";

/// Sets Python's mptune.Error, with the same four parts.
void raise(const Error& error) {
  const py::object type = py::module_::import("mptune._error").attr("Error");
  const py::object value = type(error.problem(), error.where(), error.remedy(), static_cast<int>(error.code()));
  PyErr_SetObject(type.ptr(), value.ptr());
}

void translate(std::exception_ptr thrown) {  // NOLINT(performance-unnecessary-value-param): pybind11 hands it over by value
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& error) {
    raise(error);
  }
}

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

NamedTensors pairs_of(const std::vector<NamedTensor>& tensors) {
  NamedTensors pairs;
  for (const NamedTensor& named : tensors) pairs.emplace_back(named.name, named.tensor);
  return pairs;
}

/// A pipeline with all that its model's state dict holds. Every call comes with the GIL released; one thread at a time.
class BoundPipeline {
 public:
  struct Choices {
    std::string input, loss, data;
    std::uint64_t seed = 0;
    std::string link;
    bool strict = false;
  };

 private:
  static std::string chosen(const std::string& given, const std::string& of_the_plan) { return given.empty() ? of_the_plan : given; }
  [[nodiscard]] bool forked() const { return process_ != ::getpid(); }

  /// Refuses what would hang or race.
  template <class Call>
  auto use(const Call& call) {
    if (forked())
      throw Error("this process was forked from the one that made the pipeline, whose threads stayed there", "Pipeline",
                  "make the pipeline after the fork, or start processes with the method 'spawn'");
    const std::unique_lock lock(used_, std::try_to_lock);
    if (!lock) throw Error("another thread is using the pipeline", "Pipeline", "use it from one thread at a time");
    if (!pipeline_) throw Error("the pipeline is closed", "Pipeline", "make another one");
    return call(*pipeline_);
  }

  static int checked(int stage, const Pipeline& pipeline) {
    const int stages = pipeline.plan().num_stages();
    if (stage < 0 || stage >= stages)
      throw Error("there is no stage " + std::to_string(stage), "Pipeline.parameters", "pass 0 to " + std::to_string(stages - 1));
    return stage;
  }

  [[nodiscard]] bool lacks_target(const Tensors& inputs) const {
    return predicts_ && inputs.size() + 1 == inputs_.size() && inputs.front().dim() > 0;
  }
  /// Predictions depend on no target, so any values do.
  [[nodiscard]] Tensors with_any_target(Tensors inputs) const {
    if (!lacks_target(inputs)) return inputs;
    std::vector<std::int64_t> shape = {inputs.front().size(0)};
    shape.insert(shape.end(), inputs_.back().shape.begin(), inputs_.back().shape.end());
    inputs.push_back(at::zeros(shape, inputs_.back().type));
    return inputs;
  }
  /// Without the losses of the micro-batches, where the program returns predictions beside them.
  [[nodiscard]] Tensors predictions(Tensors outputs) const {
    if (predicts_ && outputs.size() > 1) outputs.erase(outputs.begin());
    return outputs;
  }

  /// A program that computes its loss takes the target as its last input.
  [[nodiscard]] Batch checked(const Tensors& inputs, const std::optional<at::Tensor>& target) const {
    Batch batch{inputs, target.value_or(at::Tensor())};
    const std::size_t expected = inputs_.size();
    if (target && inputs.size() + 1 == expected) {
      batch.inputs.push_back(*target);
      batch.target = at::Tensor();
    }
    if (expected != 0 && batch.inputs.size() != expected)
      throw Error("the batch has " + std::to_string(inputs.size()) + " inputs, and the model takes " + std::to_string(expected), "Pipeline",
                  "pass all that its forward takes, as a tuple");
    for (std::size_t i = 0; i < expected; ++i) check_type(batch.inputs[i], inputs_[i], i);
    return batch;
  }
  static void check_type(const at::Tensor& given, const SampleTensor& expected, std::size_t index) {
    if (given.scalar_type() == expected.type || !at::isFloatingType(expected.type)) return;
    const std::string type = c10::toString(expected.type);
    throw Error("the input has values of " + std::string(c10::toString(given.scalar_type())) + ", and the model takes " + type,
                "input " + std::to_string(index), "convert it with .to()");
  }

  /// What a layer throws says which stage and layer it was.
  template <class Call>
  auto located(const char* call, const Call& what) {
    return use([&](Pipeline& pipeline) {
      try {
        return what(pipeline);
      } catch (const Error&) {
        throw;
      } catch (const c10::OutOfMemoryError& error) {
        throw Error(library_message(error.what_without_backtrace()), place(call),
                    "use smaller micro-batches, recomputation, or a plan for less --memory", ExitCode::infeasible);
      } catch (const c10::AcceleratorError& error) {
        throw Error(library_message(error.what_without_backtrace()), place(call),
                    "start a new process: this one can't use the GPU any more", ExitCode::environment);
      } catch (const c10::Error& error) {
        throw Error(library_message(error.what_without_backtrace()), place(call), kCheckInputs);
      } catch (const std::exception& error) {
        throw Error(library_message(error.what()), place(call), kCheckInputs);
      }
    });
  }
  [[nodiscard]] std::string place(const char* call) const {
    const std::string at = pipeline_->failed_at();
    return at.empty() ? std::string("Pipeline.") + call : at;
  }

 public:
  BoundPipeline(const std::string& model, const std::string& plan_path, const Choices& choices) {
    const PlanFile file = load_plan(plan_path);
    LoadedModel loaded = load_model(model, chosen(choices.input, file.training.input), choices.seed,
                                    {chosen(choices.loss, file.training.loss), choices.data});
    warnings_ = std::move(loaded.warnings);
    extras_ = std::move(loaded.extras);
    for (const NamedTensor& named : state_of(loaded.model)) names_.push_back(named.name);
    inputs_ = loaded.model.sample().inputs;
    predicts_ = loaded.model.loss().name() == "model" && inputs_.size() > 1;
    PipelineOptions options;
    options.link = parse_link(choices.link);
    options.seed = choices.seed;
    options.strict = choices.strict;
    pipeline_ = std::make_unique<Pipeline>(std::move(loaded.model), file, options);
  }

  /// In a child made by fork() the pipeline's threads are not there to be joined.
  ~BoundPipeline() {
    if (forked()) (void)pipeline_.release();
  }
  BoundPipeline(const BoundPipeline&) = delete;
  BoundPipeline& operator=(const BoundPipeline&) = delete;

  void close() {
    if (forked() || !pipeline_) return;
    use([this](Pipeline&) { pipeline_.reset(); });
  }

  /// Loss and seconds.
  std::pair<double, double> step(const Tensors& inputs, const std::optional<at::Tensor>& target, bool accumulate) {
    return located("step", [&](Pipeline& pipeline) {
      const Batch batch = checked(inputs, target);
      const StepResult result = pipeline.step(batch.inputs, batch.target, accumulate ? Accumulate::yes : Accumulate::no);
      return std::pair(result.loss, result.seconds);
    });
  }
  Tensors forward(const Tensors& inputs) {
    return located("forward", [&](Pipeline& pipeline) {
      Tensors outputs = pipeline.forward(checked(with_any_target(inputs), std::nullopt).inputs);
      if (outputs.size() == 1 && lacks_target(inputs))
        throw Error("the program returns its loss and no predictions", "Pipeline.forward",
                    "pass the target, too, or export the model again");
      return predictions(std::move(outputs));
    });
  }
  std::pair<double, Tensors> evaluate(const Tensors& inputs, const std::optional<at::Tensor>& target) {
    return located("evaluate", [&](Pipeline& pipeline) {
      const Batch batch = checked(inputs, target);
      Evaluation found = pipeline.evaluate(batch.inputs, batch.target);
      return std::pair(found.loss, predictions(std::move(found.outputs)));
    });
  }

  [[nodiscard]] NamedTensors parameters(std::optional<int> stage) {
    return use([&](Pipeline& pipeline) {
      return pairs_of(stage ? pipeline.named_parameters(checked(*stage, pipeline)) : pipeline.named_parameters());
    });
  }
  [[nodiscard]] NamedTensors buffers() {
    return use([](Pipeline& pipeline) { return pairs_of(pipeline.named_buffers()); });
  }
  [[nodiscard]] NamedTensors unused() const { return pairs_of(extras_.unused); }
  [[nodiscard]] const std::map<std::string, std::string>& tied() const { return extras_.tied; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  [[nodiscard]] int num_stages() {
    return use([](Pipeline& pipeline) { return pipeline.plan().num_stages(); });
  }
  [[nodiscard]] std::int64_t batch_size() {
    return use([](Pipeline& pipeline) { return pipeline.plan().global_batch_size(); });
  }
  [[nodiscard]] std::int64_t steps() {
    return use([](Pipeline& pipeline) { return pipeline.steps(); });
  }
  void set_steps(std::int64_t steps) {
    use([&](Pipeline& pipeline) { pipeline.set_steps(steps); });
  }
  [[nodiscard]] double loss_scale() {
    return use([](Pipeline& pipeline) { return pipeline.loss_scale(); });
  }
  void set_loss_scale(double scale) {
    use([&](Pipeline& pipeline) { pipeline.set_loss_scale(scale); });
  }
  bool unscale_gradients() {
    return use([](Pipeline& pipeline) { return pipeline.unscale_gradients(); });
  }
  double clip_gradients(double most) {
    return use([&](Pipeline& pipeline) { return pipeline.clip_gradients(most); });
  }

 private:
  std::unique_ptr<Pipeline> pipeline_;
  std::mutex used_;
  StateExtras extras_;
  std::vector<std::string> names_, warnings_;
  std::vector<SampleTensor> inputs_;
  bool predicts_ = false;  ///< the program computes its loss from a target: predictions may stand behind it
  pid_t process_ = ::getpid();
};

}  // namespace
}  // namespace mptune

PYBIND11_MODULE(_runtime, module) {
  using mptune::BoundPipeline;
  using Released = py::call_guard<py::gil_scoped_release>;
  py::register_exception_translator(mptune::translate);
  // Destroyed without the GIL: threads of the pipeline take it to free tensors that Python has seen.
  py::class_<BoundPipeline, std::unique_ptr<BoundPipeline>>(module, "Pipeline", py::release_gil_before_calling_cpp_dtor())
      .def(py::init([](const std::string& model, const std::string& plan, const std::string& input, const std::string& loss,
                       const std::string& data, std::uint64_t seed, const std::string& link, bool strict) {
             return std::make_unique<BoundPipeline>(model, plan, BoundPipeline::Choices{input, loss, data, seed, link, strict});
           }),
           Released(), py::kw_only(), py::arg("model"), py::arg("plan"), py::arg("input"), py::arg("loss"), py::arg("data"),
           py::arg("seed"), py::arg("link"), py::arg("strict"))
      .def("close", &BoundPipeline::close, Released())
      .def("step", &BoundPipeline::step, Released())
      .def("forward", &BoundPipeline::forward, Released())
      .def("evaluate", &BoundPipeline::evaluate, Released())
      .def("parameters", &BoundPipeline::parameters, Released())
      .def("buffers", &BoundPipeline::buffers, Released())
      .def("unused", &BoundPipeline::unused)
      .def("tied", &BoundPipeline::tied)
      .def("names", &BoundPipeline::names)
      .def("warnings", &BoundPipeline::warnings)
      .def("num_stages", &BoundPipeline::num_stages, Released())
      .def("batch_size", &BoundPipeline::batch_size, Released())
      .def("steps", &BoundPipeline::steps, Released())
      .def("set_steps", &BoundPipeline::set_steps, Released())
      .def("loss_scale", &BoundPipeline::loss_scale, Released())
      .def("set_loss_scale", &BoundPipeline::set_loss_scale, Released())
      .def("unscale_gradients", &BoundPipeline::unscale_gradients, Released())
      .def("clip_gradients", &BoundPipeline::clip_gradients, Released());
}
