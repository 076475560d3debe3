// Weights of exported programs out to files and back: every name that the Python model's state_dict() has, no other.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "profiler/model/exported/load_exported.h"
#include "profiler/model/files/safetensors.h"
#include "profiler/model/files/state.h"
#include "profiler/model/files/torch_file.h"
#include "tests/support/files.h"

namespace mptune::testing {
using namespace profiler;
namespace {

LoadedModel golden_model(const std::string& name) {
  return profiler::load_exported(std::string(MPTUNE_SOURCE_DIR "/tests/golden/exported/") + name + ".pt2");
}

std::map<std::string, at::Tensor> saved(const LoadedModel& loaded, const std::string& path) {
  save_state(loaded.model, path, loaded.extras);
  const profiler::TensorDict dict = profiler::is_safetensors(path) ? profiler::read_safetensors(path) : profiler::read_torch_file(path);
  return {dict.begin(), dict.end()};
}

TEST(ExportedWeights, TiedWeightsHaveAllTheirNames) {
  const TestFolder folder("exported-weights");
  const LoadedModel model = golden_model("language");
  auto state = saved(model, folder.path("state.pt"));
  EXPECT_EQ(state.size(), 9U);
  EXPECT_EQ(state["head.weight"].const_data_ptr(), state["word.weight"].const_data_ptr()) << "stored once";
  EXPECT_TRUE(at::equal(state["head.weight"], state["word.weight"]));
  EXPECT_EQ(saved(model, folder.path("state.safetensors")).size(), 8U);
}

TEST(ExportedWeights, BuffersAreThoseThatPythonSaves) {
  const TestFolder folder("exported-weights");
  const auto state = saved(golden_model("regions"), folder.path("state.pt"));
  EXPECT_EQ(state.count("average"), 1U);
  EXPECT_EQ(state.count("offset"), 0U) << "made with persistent=False";
  EXPECT_EQ(state.count("weights"), 0U) << "a constant";
  EXPECT_EQ(saved(golden_model("residual"), folder.path("norms.pt")).count("norm1.num_batches_tracked"), 1U);
}

TEST(ExportedWeights, RoundTrip) {
  const TestFolder folder("exported-weights");
  for (const std::string name : {"residual", "language", "regions", "sequence"}) {
    LoadedModel changed = golden_model(name);
    {
      const at::NoGradGuard no_gradients;
      for (const NamedTensor& parameter : changed.model.parameters()) at::Tensor(parameter.tensor).add_(1);
    }
    for (const char* file : {"state.pt", "state.safetensors"}) {
      save_state(changed.model, folder.path(file), changed.extras);
      LoadedModel other = golden_model(name);
      load_state(other.model, folder.path(file), other.extras);
      const auto expected = changed.model.parameters(), found = other.model.parameters();
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(at::equal(found[i].tensor, expected[i].tensor)) << name << " " << expected[i].name;
    }
  }
}

}  // namespace
}  // namespace mptune::testing
