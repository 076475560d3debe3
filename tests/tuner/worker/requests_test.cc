#include "mptune/tuner/worker/requests.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "fixture.h"
#include "mptune/profiler/analyze/breakdown.h"
#include "mptune/profiler/base/error.h"
#include "mptune/profiler/state/state.h"
#include "mptune/profiler/store/store.h"

namespace mptune::testing {
namespace {

class WorkerRequests : public WorkerTest {};

TEST_F(WorkerRequests, DescribeListsTheBuiltInModels) {
  DescribeRequest request;
  request.all_models = true;
  describe(request, replies());
  const auto described = all<Described>();
  ASSERT_EQ(described.size(), 1U);
  std::map<std::string, DescribedModel> models;
  for (const DescribedModel& model : described[0].models) models[model.name] = model;
  ASSERT_EQ(models.size(), 9U);
  EXPECT_EQ(models.at("vgg16").parameters, 138'357'544);
  EXPECT_EQ(models.at("resnet18").parameters, 11'689'512);
  EXPECT_EQ(models.at("resnet50").parameters, 25'557'032);
  EXPECT_EQ(models.at("mlp").parameters, 10 * 10 + 10 + 10 * 5 + 5);
  EXPECT_TRUE(models.contains("transformer"));
  for (const auto& [name, model] : models) {
    EXPECT_GT(model.batch, 0) << name;
    EXPECT_FALSE(model.layers.empty()) << name;
    EXPECT_FALSE(model.description.empty()) << name;
    EXPECT_TRUE(model.fingerprint.model.starts_with("sha256:")) << name;
  }
}

TEST_F(WorkerRequests, DescribeTakesParametersAndRefusesAnUnknownModel) {
  DescribeRequest request;
  request.setup = setup_for("mlp:layers=3,width=7", 0);
  request.setup.input = "9";
  describe(request, replies());
  const DescribedModel model = all<Described>().at(0).models.at(0);
  EXPECT_EQ(model.parameters, 9 * 7 + 7 + 7 * 7 + 7 + 7 * 5 + 5);
  EXPECT_EQ(model.layers.size(), 3U);
  EXPECT_EQ(model.fingerprint.devices, request.setup.devices);
  request.setup.model = "resnet19";
  try {
    describe(request, replies());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE((error.what() + error.where() + error.remedy()).find("resnet19"), std::string::npos);
  }
}

TEST_F(WorkerRequests, MeasureWritesAProfileThatReadsBack) {
  MeasureRequest request{setup_for("mlp:layers=3", 4), path("profile.sqlite"), 0.2};
  request.setup.memory_bytes = {{request.setup.devices.back(), 1 << 20}};
  measure(request, replies());
  const Recording recording = read_recording(request.path);
  ASSERT_TRUE(recording.profile);
  EXPECT_EQ(recording.profile->model, "mlp");
  EXPECT_EQ(recording.profile->batch, 4);
  EXPECT_EQ(recording.profile->layers.size(), 3U);
  EXPECT_EQ(recording.profile->classes.at(0).layers.at(0).by_samples.size(), 3U);
  ASSERT_EQ(recording.profile->devices.size(), request.setup.devices.size());
  EXPECT_EQ(recording.profile->devices.back().memory_bytes, 1 << 20);
  const auto progress = all<Progress>();
  ASSERT_FALSE(progress.empty());
  EXPECT_EQ(progress.back().fraction, 1);
}

TEST_F(WorkerRequests, CheckComparesEveryPartAndThePlan) {
  CheckRequest request{setup_for("mlp:layers=3", 8), std::nullopt, 0};
  request.plan = plan_for(request.setup, 3, 2);
  check(request, replies());
  const CheckResult result = all<Checked>().at(0).result;
  EXPECT_EQ(result.samples, 8);
  EXPECT_EQ(result.microbatch_sizes, (std::vector<int>{2, 2, 2, 2}));
  std::vector<std::string> names;
  for (const CheckPart& part : result.parts) {
    names.push_back(part.name);
    EXPECT_EQ(part.left_out, "");
    EXPECT_FALSE(part.difference) << difference_text(part);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"again", "pieces", "microbatches", "plan"}));
  EXPECT_GE(all<Progress>().size(), 3U);
}

TEST_F(WorkerRequests, CheckTakesFewSamplesUnlessAskedAndLeavesOutWhatTimeDoesNotAllow) {
  CheckRequest request{setup_for("mlp:layers=3", 0), std::nullopt, 1e-9};
  check(request, replies());
  const CheckResult result = all<Checked>().at(0).result;
  EXPECT_EQ(result.samples, 4);
  EXPECT_EQ(result.microbatch_sizes, (std::vector<int>{2, 2}));
  ASSERT_EQ(result.parts.size(), 3U);
  for (const CheckPart& part : result.parts) EXPECT_NE(part.left_out.find("time"), std::string::npos);
}

TEST_F(WorkerRequests, RecordWritesATraceThatAddsUp) {
  constexpr int kSteps = 3, kLayers = 4, kMicrobatches = 4;
  RecordRequest request;
  request.setup = setup_for("mlp:layers=4", 16);
  request.plan = plan_for(request.setup, kLayers, 4);
  request.steps = kSteps;
  request.path = path("trace.sqlite");
  record(request, replies());
  const Recording recording = read_recording(request.path);
  ASSERT_TRUE(recording.trace);
  const Trace& trace = *recording.trace;
  EXPECT_EQ(trace.quality, TraceQuality{});
  EXPECT_NE(recording.plan_json.find("1f1b"), std::string::npos);
  std::set<int> tagged;
  std::map<What, int> count;
  for (const Event& event : trace.events) {
    ++count[event.what];
    ASSERT_GE(event.tag, 0);
    tagged.insert(trace.tags.at(static_cast<std::size_t>(event.tag)).step);
  }
  const int stages = static_cast<int>(request.setup.devices.size());
  EXPECT_EQ(count[What::forward], kSteps * kMicrobatches * (kLayers + 1)) << "layers and the loss";
  EXPECT_EQ(count[What::copy], kSteps * kMicrobatches * 2 * (stages - 1));
  EXPECT_EQ(count[What::optimizer], kSteps * stages);
  std::set<int> steps;
  for (const StepWindow& window : trace.steps) steps.insert(window.step);
  EXPECT_EQ(steps.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(tagged, steps) << "events and windows disagree on the step";
  const Breakdown breakdown = break_down(trace);
  ASSERT_EQ(breakdown.steps.size(), static_cast<std::size_t>(kSteps));
  for (const StepBreakdown& step : breakdown.steps)
    for (const DeviceBreakdown& device : step.devices) {
      EXPECT_GT(device.compute, Nanoseconds{0});
      EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
      EXPECT_EQ(device.causes.total(), device.idle);
    }
  const auto recorded = all<Recorded>();
  ASSERT_EQ(recorded.size(), 1U);
  EXPECT_EQ(recorded[0].step_s.size(), static_cast<std::size_t>(kSteps));
  EXPECT_EQ(recorded[0].step_on_s, recording.step_on_s);
  EXPECT_EQ(recorded[0].step_off_s, recording.step_off_s);
}

TEST_F(WorkerRequests, TrainingLowersTheLossAndGoesOnWhereItsFileEnded) {
  TrainRequest whole;
  whole.setup = setup_for("mlp:layers=3", 12);
  whole.setup.learning_rate = 0.1;
  whole.plan = plan_for(whole.setup, 3, 5);
  whole.steps = 8;
  train(whole, replies());
  const std::vector<double> loss = all<TrainingFinished>().at(0).loss;
  ASSERT_EQ(loss.size(), 8U);
  for (std::size_t i = 1; i < loss.size(); ++i) EXPECT_LT(loss[i], loss[i - 1]);
  ASSERT_EQ(all<Trained>().size(), 8U);
  EXPECT_EQ(all<Trained>()[3].loss, loss[3]);

  TrainRequest first = whole, second = whole;
  first.steps = 5;
  first.save = path("state.pt");
  second.steps = 3;
  second.load = first.save;
  forget();
  train(first, replies());
  train(second, replies());
  const auto parts = all<TrainingFinished>();
  EXPECT_EQ(parts.at(0).loss, std::vector<double>(loss.begin(), loss.begin() + 5));
  EXPECT_EQ(parts.at(1).loss, std::vector<double>(loss.begin() + 5, loss.end()));
  EXPECT_EQ(parts.at(1).peak_bytes.size(), second.setup.devices.size());
}

TEST_F(WorkerRequests, BatchNormStatisticsSurviveTheFile) {
  TrainRequest request;
  request.setup = setup_for("resnet18", 4, 1);
  request.setup.input = "3x32x32";
  request.plan = plan_for(request.setup, 10, 2);
  request.steps = 1;
  request.save = path("resnet.pt");
  train(request, replies());
  const Model fresh = model_of(request.setup).model;
  Model trained = model_of(request.setup).model;
  load_state(trained, request.save);
  const auto before = fresh.buffers(), after = trained.buffers();
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i].name.find("running") != std::string::npos) {
      EXPECT_FALSE(before[i].tensor.equal(after.at(i).tensor)) << before[i].name;
    }
}

TEST_F(WorkerRequests, TrainRefusesALossThatIsNotFinite) {
  TrainRequest request;
  request.setup = setup_for("mlp", 8, 1);
  request.setup.learning_rate = 1e30;
  request.plan = plan_for(request.setup, 2, 8);
  request.steps = 5;
  request.save = path("never.pt");
  try {
    train(request, replies());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
  }
  EXPECT_FALSE(std::filesystem::exists(request.save)) << "a broken state was saved";
}

TEST_F(WorkerRequests, DoctorLooksAtEveryDevice) {
  DoctorRequest request;
  request.setup.devices = core_names(2);
  diagnose(request, replies());
  const Findings found = all<Findings>().at(0);
  std::map<std::string, Finding> findings;
  for (const Finding& finding : found.findings) findings[finding.name] = finding;
  EXPECT_EQ(findings.at("LibTorch").status, FindingStatus::ok);
  for (const std::string& device : request.setup.devices) EXPECT_EQ(findings.at("device " + device).status, FindingStatus::ok);
  EXPECT_EQ(findings.contains("co-running slow-down"), request.setup.devices.size() > 1);
  EXPECT_TRUE(findings.contains("clock"));
  for (const auto& [name, finding] : findings) {
    EXPECT_FALSE(finding.value.empty()) << name;
    if (finding.status != FindingStatus::ok) {
      EXPECT_FALSE(finding.remedy.empty()) << name;
    }
  }
}

}  // namespace
}  // namespace mptune::testing
