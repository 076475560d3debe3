#include "planner/plan/file/plan_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "profiler/base/sha256.h"
#include "tests/planner/plan/plan_file_example.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using testing::scheduled;
using testing::stages_of;

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "plan-file-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const char* name) const { return (path_ / name).string(); }
  [[nodiscard]] std::ptrdiff_t files() const { return std::distance(std::filesystem::directory_iterator(path_), {}); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(PlanJson, IsTheDocumentedObject) {
  const Plan plan = scheduled(stages_of(4, {1, 1}, {4, 4, 2}), "1f1b");
  EXPECT_EQ(plan_to_json(plan, {{"a", "b"}, {}}),
            R"({"global_batch_size":10,"micro_batch_size":4,"num_microbatches":3,"microbatch_sizes":null,"data_parallel_size":1,)"
            R"("num_stages":2,"devices":["sleep:0","sleep:1"],"schedule":{"name":"1f1b","actions":["0F0 0F1 0B0 0F2 0B1 0B2",)"
            R"("1F0 1B0 1F1 1B1 1F2 1B2"]},"stages":[{"index":0,"devices":["sleep:0"],"layers":[0,2],"modules":["a","b"],)"
            R"("first_module":"a","recompute":"none"},{"index":1,"devices":["sleep:1"],"layers":[2,4],"modules":[],"first_module":"",)"
            R"("recompute":"none"}]})");
}

TEST(PlanJson, FusedWeightGradientsAreNotExact) {
  Plan plan = stages_of(2, {1}, {1, 1});
  plan.schedule = "fused";
  plan.actions = {actions_from_text("0F0 0F1 0I0 0I1 0W0-1", "")};
  std::string text = plan_to_json(plan, {});
  EXPECT_EQ(plan_from_json(text, "here"), plan);
  const std::string inexact = R"("exact":false)";
  ASSERT_THAT(text, HasSubstr(inexact));
  text.replace(text.find(inexact), inexact.size(), R"("exact":true)");
  EXPECT_THROW((void)plan_from_json(text, "here"), Error);
}

TEST(PlanJson, RoundTrips) {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    std::vector<int> sizes;
    for (int i = draw(1, 6); i > 0; --i) sizes.push_back(draw(1, 4));
    Plan plan = stages_of(6, {draw(1, 3), draw(1, 3)}, sizes);
    if (draw(0, 1) == 1) plan.stages[0].recompute = {Recompute::Mode::some, {0, 2}, {0}};
    make_schedule(plan, draw(0, 1) == 1 ? "gpipe" : "1f1b");
    EXPECT_EQ(plan_from_json(plan_to_json(plan, {}), ""), plan);
    EXPECT_EQ(plan_from_json(plan_to_json(plan, {{"x"}, {"y", "z"}}), ""), plan);
  }
}

TEST(PlanKey, IsTheHashOfTheCanonicalText) {
  EXPECT_EQ(sha256("abc"), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Plan plan = example().plan;
  const std::string key = plan_key(plan);
  EXPECT_EQ(key, sha256(plan_to_json(plan, {})).substr(7, 12));
  EXPECT_EQ(key.size(), 12u);
  plan.stages[1].recompute.microbatches = {2};
  EXPECT_NE(plan_key(plan), key);
}

TEST(PlanFile, RoundTrips) {
  const PlanFile file = example();
  const std::string text = to_json(file);
  const PlanFile read = parse_plan_file(text, "");
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.plan, file.plan);
  EXPECT_EQ(read.modules, file.modules);
  EXPECT_EQ(read.fingerprint, file.fingerprint);
  EXPECT_EQ(read.created, file.created);
  EXPECT_EQ(read.study, file.study);
  EXPECT_EQ(read.trial, 17);
  EXPECT_EQ(read.predicted->peak_bytes, file.predicted->peak_bytes);
  EXPECT_EQ(read.predicted->lower_bound_s, 0.39);
  EXPECT_EQ(read.measured->step_s, 0.1 + 0.2);
  EXPECT_EQ(read.measured->step_ci95_s, file.measured->step_ci95_s);
  EXPECT_EQ(read.measured->peak_bytes, file.measured->peak_bytes);
  EXPECT_EQ(read.measured->verdict, Verdict::fast);
  EXPECT_EQ(read.measured->speedup_over, "naive_model_parallel");
  EXPECT_EQ(read.measured->speedup.ci95, file.measured->speedup.ci95);
  EXPECT_EQ(read.measured->speedup.range, file.measured->speedup.range);
  EXPECT_EQ(read.measured->speedup.pairs, 44);
  ASSERT_EQ(read.alternatives.size(), 1u);
  EXPECT_EQ(read.alternatives[0].plan, file.alternatives[0].plan);
}

TEST(PlanFile, FewSamplesHaveNoInterval) {
  PlanFile file = example();
  file.measured->step_samples = 5;
  file.measured->step_ci95_s.reset();
  file.measured->speedup.ci95.reset();
  const std::string text = to_json(file);
  EXPECT_THAT(text, HasSubstr("\"step_ci95_s\": null"));
  const PlanFile read = parse_plan_file(text, "");
  EXPECT_FALSE(read.measured->step_ci95_s);
  EXPECT_FALSE(read.measured->speedup.ci95);
  EXPECT_EQ(read.measured->speedup.range, file.measured->speedup.range);
  file.measured->step_ci95_s = file.measured->speedup.ci95 = Interval{0.4, 0.5};
  const PlanFile old = parse_plan_file(to_json(file), "");
  EXPECT_FALSE(old.measured->step_ci95_s) << "earlier versions wrote the range";
  EXPECT_FALSE(old.measured->speedup.ci95);
}

TEST(PlanFile, LeavesOutWhatIsNotKnown) {
  PlanFile file;
  file.plan = example().plan;
  const PlanFile read = parse_plan_file(to_json(file), "");
  EXPECT_FALSE(read.predicted || read.measured);
  EXPECT_TRUE(read.modules.empty());
  EXPECT_EQ(read.trial, -1);
}

TEST(PlanFile, IgnoresUnknownKeysAndOtherTools) {
  Json json = Json::parse(to_json(example()));
  json["colour"] = {{"deep", {1, 2, 3}}};
  json["plan"]["stages"][0]["colour"] = "red";
  json["tool"]["version"] = "99.0";
  EXPECT_EQ(parse_plan_file(json.dump(), "").plan, example().plan);
}

TEST(PlanFile, SavesAndLoads) {
  const Folder folder;
  const std::string path = folder / "a.plan.json";
  save_plan_file(example(), path, false);
  EXPECT_EQ(to_json(load_plan_file(path)), to_json(example()));
  PlanFile other = example();
  other.trial = 18;
  save_plan_file(other, path, false);
  EXPECT_EQ(load_plan_file(path).trial, 18) << "a plan file of ours is replaced";
  EXPECT_EQ(folder.files(), 1) << "no temporary file stays";
}

TEST(PlanFile, ReplacesForeignFilesOnlyWhenForced) {
  const Folder folder;
  for (const char* content : {"hello", "{}", "{\"schema\": \"mptune.tune/1\"}", ""}) {
    const std::string path = folder / "foreign";
    write(path, content);
    try {
      save_plan_file(example(), path, false);
      FAIL() << content;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.remedy(), HasSubstr("--force"));
    }
    std::ifstream stream(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), content);
    save_plan_file(example(), path, true);
    EXPECT_EQ(load_plan_file(path).trial, 17);
  }
  EXPECT_THROW(save_plan_file(example(), folder.path().string(), true), Error);
  save_plan_file(example(), "/dev/null", false);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null")) << "it is written to, and stays";
  EXPECT_THROW(save_plan_file(example(), folder / "no/such/folder.json", false), Error);
}

// Every write beyond a few bytes fails, as on a full disk; the old file stays whole.
TEST(PlanFile, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  const Folder folder;
  const std::string path = folder / "a.plan.json";
  save_plan_file(example(), path, false);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tiny = old_limit;
  tiny.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tiny), 0);
  PlanFile other = example();
  other.trial = 18;
  ExitCode code = ExitCode::done;
  try {
    save_plan_file(other, path, false);
  } catch (const Error& error) {
    code = error.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(code, ExitCode::environment);
  EXPECT_EQ(load_plan_file(path).trial, 17);
  EXPECT_EQ(folder.files(), 1);
}

TEST(PlanFile, AReadOnlyFolderIsAnError) {
  const Folder folder;
  ::chmod(folder.path().c_str(), 0555);
  // Root may write everywhere, so for the moment of the test it is somebody else.
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  ExitCode code = ExitCode::done;
  try {
    save_plan_file(example(), folder / "a.plan.json", false);
  } catch (const Error& error) {
    code = error.code();
  }
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(code, ExitCode::usage);
}

TEST(PlanFile, LoadRefusesWhatIsNoFile) {
  const Folder folder;
  EXPECT_THROW((void)load_plan_file(folder / "missing"), Error);
  EXPECT_THROW((void)load_plan_file(folder.path().string()), Error);
  EXPECT_THROW((void)load_plan_file("/dev/zero"), Error);
  const std::string large = folder / "large";
  write(large, "");
  std::filesystem::resize_file(large, (std::uintmax_t{64} << 20) + 1);
  EXPECT_THROW((void)load_plan_file(large), Error);
}

TEST(PlanFile, TheEnvironmentOverridesThePath) {
  const Folder folder;
  save_plan_file(example(), folder / "a.plan.json", false);
  PlanFile other = example();
  other.trial = 99;
  save_plan_file(other, folder / "b.plan.json", false);
  ::unsetenv("MPTUNE_PLAN");
  EXPECT_EQ(load_plan(folder / "a.plan.json").trial, 17);
  ::setenv("MPTUNE_PLAN", (folder / "b.plan.json").c_str(), 1);
  EXPECT_EQ(load_plan(folder / "a.plan.json").trial, 99);
  ::setenv("MPTUNE_PLAN", "", 1);
  EXPECT_EQ(load_plan(folder / "a.plan.json").trial, 17);
  ::unsetenv("MPTUNE_PLAN");
}

// The layers of example().
std::vector<ProfileLayer> layers_of_example() {
  std::vector<ProfileLayer> layers(6);
  layers[0].modules = {"conv1", "bn1"};
  layers[2].modules = {"layer1.0"};
  layers[4].modules = {"fc"};
  return layers;
}

TEST(CheckModules, ComparesEveryNameOfEveryStage) {
  const PlanFile file = example();
  EXPECT_EQ(stage_modules(file.plan, layers_of_example()), file.modules);
  const auto found = [](std::size_t stage, const std::vector<std::string>& names) -> std::string {
    PlanFile other = example();
    other.modules[stage] = names;
    try {
      return check_modules(other, layers_of_example(), "x.plan.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "x.plan.json");
      return error.problem();
    }
  };
  EXPECT_EQ(found(0, {"conv1", "bn1"}), "");
  EXPECT_EQ(found(0, {"conv1", "fc"}), "stage 0 names module 'fc', which is in the layers of stage 2");
  EXPECT_EQ(found(0, {"bn1", "conv1"}), "stage 0 names module 'conv1', which comes earlier in its layers");
  EXPECT_EQ(found(2, {"fc", "fc"}), "stage 2 names module 'fc', which comes earlier in its layers");
  EXPECT_EQ(found(2, {"fc", "relu"}), "relu") << "a form of the model may have no such module";
  EXPECT_EQ(found(1, {}), "");
}

}  // namespace
}  // namespace mptune::planner
