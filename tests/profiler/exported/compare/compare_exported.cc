// compare_exported MODEL.pt2 REFERENCE [CUTS]: runs an exported program as a chain of layers and compares loss, gradients and buffers with
// those that Python's eager PyTorch left in REFERENCE. CUTS: none (one piece), useful (the default), or positions such as 3,17.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>

#include "exported_chain.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/profiler/trace/text.h"

namespace mptune {
namespace {

std::vector<int> cuts_of(const std::string& text, const BoundProgram& program) {
  if (text == "none") return {};
  if (text == "useful") return program.cuts.useful();
  std::vector<int> cuts;
  for (const std::string& part : split(text, ',')) cuts.push_back(static_cast<int>(integer(part).value()));
  return cuts;
}

int compare(const std::string& model, const std::string& reference, const std::string& cuts) {
  at::set_num_threads(1);
  const testing::EagerStep expected = testing::read_eager_step(reference);
  const ExportedArchive archive = read_exported_archive(model);
  const auto program = std::make_shared<const BoundProgram>(archive.program, model, expected.inputs.at(0).size(0));
  testing::ExportedChain chain(program, archive.tensors, cuts_of(cuts, *program));
  at::manual_seed(7);
  chain.step(expected.inputs);
  const testing::Agreement agreement = chain.compare(expected);
  std::printf("%d nodes in %zu layers: %d tensors equal, %d not, furthest %.1e %s\n", program->graph.nodes(), chain.size(), agreement.equal,
              agreement.different, agreement.worst, agreement.worst_name.c_str());
  return agreement.worst <= (cuts == "none" ? 0 : 1e-5) ? 0 : 1;
}

}  // namespace
}  // namespace mptune

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    return mptune::compare(argv[1], argv[2], argc > 3 ? argv[3] : "useful");
  } catch (const mptune::Error& error) {
    std::fprintf(stderr, "%s: %s; %s\n", error.what(), error.where().c_str(), error.remedy().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 2;
}
