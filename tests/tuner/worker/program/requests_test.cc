#include "tuner/worker/program/requests.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "fixture.h"
#include "profiler/base/error.h"
#include "profiler/model/files/state.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/store/store.h"

namespace mptune::testing {
using namespace tuner;
namespace {

class WorkerRequests : public WorkerTest {};

TEST_F(WorkerRequests, DescribeListsTheBuiltInModels) {
  tuner::DescribeRequest request;
  request.all_models = true;
  describe(request, replies());
  const auto described = all<tuner::Described>();
  ASSERT_EQ(described.size(), 1U);
  std::map<std::string, tuner::DescribedModel> models;
  for (const tuner::DescribedModel& model : described[0].models) models[model.name] = model;
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
  tuner::DescribeRequest request;
  request.setup = setup_for("mlp:layers=3,width=7", 0);
  request.setup.input = "9";
  describe(request, replies());
  const tuner::DescribedModel model = all<tuner::Described>().at(0).models.at(0);
  EXPECT_EQ(model.parameters, 9 * 7 + 7 + 7 * 7 + 7 + 7 * 5 + 5);
  EXPECT_EQ(model.layers.size(), 3U);
  EXPECT_EQ(model.fingerprint.devices, request.setup.devices);
  request.setup.model = "resnet19";
  try {
    describe(request, replies());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE((error.problem() + error.where() + error.remedy()).find("resnet19"), std::string::npos);
  }
}

TEST_F(WorkerRequests, MeasureWritesAProfileThatReadsBack) {
  tuner::MeasureRequest request{setup_for("mlp:layers=3", 4), path("profile.sqlite"),
                                5};  // a loaded machine leaves sizes out of a budget of 0.2 s
  request.setup.memory_bytes = {{request.setup.devices.back(), 1 << 20}};
  tuner::measure(request, replies());
  const profiler::Recording recording = profiler::read_recording(request.path);
  ASSERT_TRUE(recording.profile);
  EXPECT_EQ(recording.profile->model, "mlp");
  EXPECT_EQ(recording.profile->batch, 4);
  EXPECT_EQ(recording.profile->layers.size(), 3U);
  EXPECT_EQ(recording.profile->classes.at(0).layers.at(0).by_samples.size(), 3U);
  ASSERT_EQ(recording.profile->devices.size(), request.setup.devices.size());
  EXPECT_EQ(recording.profile->devices.back().memory_bytes, 1 << 20);
  const auto progress = all<tuner::Progress>();
  ASSERT_FALSE(progress.empty());
  EXPECT_EQ(progress.back().fraction, 1);
}

TEST_F(WorkerRequests, CheckComparesEveryPartAndThePlan) {
  tuner::CheckRequest request{setup_for("mlp:layers=3", 8), std::nullopt, 0};
  request.plan = plan_for(request.setup, 3, 2);
  tuner::check(request, replies());
  const tuner::CheckResult result = all<tuner::Checked>().at(0).result;
  EXPECT_EQ(result.samples, 8);
  EXPECT_EQ(result.microbatch_sizes, (std::vector<int>{2, 2, 2, 2}));
  std::vector<std::string> names;
  for (const tuner::CheckPart& part : result.parts) {
    names.push_back(part.name);
    EXPECT_EQ(part.left_out, "");
    EXPECT_FALSE(part.difference) << tuner::difference_text(part);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"again", "pieces", "microbatches", "plan"}));
  EXPECT_GE(all<tuner::Progress>().size(), 3U);
}

TEST_F(WorkerRequests, CheckTakesFewSamplesUnlessAskedAndLeavesOutWhatTimeDoesNotAllow) {
  tuner::CheckRequest request{setup_for("mlp:layers=3", 0), std::nullopt, 1e-9};
  tuner::check(request, replies());
  const tuner::CheckResult result = all<tuner::Checked>().at(0).result;
  EXPECT_EQ(result.samples, 4);
  EXPECT_EQ(result.microbatch_sizes, (std::vector<int>{2, 2}));
  ASSERT_EQ(result.parts.size(), 3U);
  for (const tuner::CheckPart& part : result.parts) EXPECT_NE(part.left_out.find("time"), std::string::npos);
  EXPECT_EQ(tuner::parts_without_time(result), (std::vector<std::string>{"again", "pieces", "microbatches"}));
  forget();
  request.budget_s = 1000;
  request.started_s = tuner::monotonic_seconds() - 2000;
  tuner::check(request, replies());
  EXPECT_EQ(tuner::parts_without_time(all<tuner::Checked>().at(0).result).size(), 3U) << "loading the model counts, too";
}

TEST_F(WorkerRequests, RecordWritesATraceThatAddsUp) {
  constexpr int kSteps = 3, kMlpLayers = 4, kSizes = 4;
  tuner::RecordRequest request;
  request.setup = setup_for("mlp:layers=4", 16);
  request.plan = plan_for(request.setup, kMlpLayers, 4);
  request.steps = kSteps;
  request.path = path("trace.sqlite");
  tuner::record(request, replies());
  const profiler::Recording recording = profiler::read_recording(request.path);
  ASSERT_TRUE(recording.trace);
  const Trace& trace = *recording.trace;
  EXPECT_EQ(trace.quality, TraceQuality{});
  EXPECT_NE(recording.plan_json.find("1f1b"), std::string::npos);
  std::set<int> tagged;
  std::map<EventKind, int> count;
  for (const Event& event : trace.events) {
    ++count[event.kind];
    ASSERT_GE(event.tag, 0);
    tagged.insert(trace.tags.at(as_index(event.tag)).step);
  }
  const int stages = static_cast<int>(request.setup.devices.size());
  EXPECT_EQ(count[EventKind::forward], kSteps * kSizes * (kMlpLayers + 1)) << "layers and the loss";
  EXPECT_EQ(count[EventKind::copy], kSteps * kSizes * 2 * (stages - 1));
  EXPECT_EQ(count[EventKind::optimizer], kSteps * stages);
  std::set<int> steps;
  for (const StepWindow& window : trace.steps) steps.insert(window.step);
  EXPECT_EQ(steps.size(), as_index(kSteps));
  EXPECT_EQ(tagged, steps) << "events and windows disagree on the step";
  const profiler::Breakdown breakdown = profiler::break_down(trace);
  ASSERT_EQ(breakdown.steps.size(), as_index(kSteps));
  for (const profiler::StepBreakdown& step : breakdown.steps)
    for (const profiler::DeviceBreakdown& device : step.devices) {
      EXPECT_GT(device.compute, Nanoseconds{0});
      EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
      EXPECT_EQ(device.causes.total(), device.idle);
    }
  const auto recorded = all<tuner::Recorded>();
  ASSERT_EQ(recorded.size(), 1U);
  EXPECT_EQ(recorded[0].step_s.size(), as_index(kSteps));
  EXPECT_EQ(recorded[0].step_on_s, recording.step_on_s);
  EXPECT_EQ(recorded[0].step_off_s, recording.step_off_s);
}

TEST_F(WorkerRequests, TrainingLowersTheLossAndGoesOnWhereItsFileEnded) {
  tuner::TrainRequest whole;
  whole.setup = setup_for("mlp:layers=3", 12);
  whole.setup.learning_rate = 0.1;
  whole.plan = plan_for(whole.setup, 3, 5);
  whole.steps = 8;
  tuner::train(whole, replies());
  const std::vector<double> loss = all<tuner::TrainingFinished>().at(0).loss;
  ASSERT_EQ(loss.size(), 8U);
  for (std::size_t i = 1; i < loss.size(); ++i) EXPECT_LT(loss[i], loss[i - 1]);
  ASSERT_EQ(all<tuner::Trained>().size(), 8U);
  EXPECT_EQ(all<tuner::Trained>()[3].loss, loss[3]);

  tuner::TrainRequest first = whole, second = whole;
  first.steps = 5;
  first.save = path("state.pt");
  second.steps = 3;
  second.load = first.save;
  forget();
  tuner::train(first, replies());
  tuner::train(second, replies());
  const auto parts = all<tuner::TrainingFinished>();
  EXPECT_EQ(parts.at(0).loss, std::vector<double>(loss.begin(), loss.begin() + 5));
  EXPECT_EQ(parts.at(1).loss, std::vector<double>(loss.begin() + 5, loss.end()));
  EXPECT_EQ(parts.at(1).peak_bytes.size(), second.setup.devices.size());
}

TEST_F(WorkerRequests, BatchNormStatisticsSurviveTheFile) {
  tuner::TrainRequest request;
  request.setup = setup_for("resnet18", 4, 1);
  request.setup.input = "3x32x32";
  request.plan = plan_for(request.setup, 10, 2);
  request.steps = 1;
  request.save = path("resnet.pt");
  tuner::train(request, replies());
  const Model fresh = tuner::model_of(request.setup).model;
  Model trained = tuner::model_of(request.setup).model;
  load_state(trained, request.save);
  const auto before = fresh.buffers(), after = trained.buffers();
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i].name.find("running") != std::string::npos) {
      EXPECT_FALSE(before[i].tensor.equal(after.at(i).tensor)) << before[i].name;
    }
}

TEST_F(WorkerRequests, TrainRefusesALossThatIsNotFinite) {
  tuner::TrainRequest request;
  request.setup = setup_for("mlp", 8, 1);
  request.setup.learning_rate = 1e30;
  request.plan = plan_for(request.setup, 2, 8);
  request.steps = 5;
  request.save = path("never.pt");
  try {
    tuner::train(request, replies());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
  }
  EXPECT_FALSE(std::filesystem::exists(request.save)) << "a broken state was saved";
}

TEST_F(WorkerRequests, DoctorLooksAtEveryDevice) {
  tuner::DoctorRequest request;
  request.setup.devices = core_names(2);
  tuner::diagnose(request, replies());
  const tuner::Findings found = all<tuner::Findings>().at(0);
  std::map<std::string, tuner::Finding> findings;
  for (const tuner::Finding& finding : found.findings) findings[finding.name] = finding;
  EXPECT_EQ(findings.at("LibTorch").status, tuner::FindingStatus::ok);
  for (const std::string& device : request.setup.devices) EXPECT_EQ(findings.at("device " + device).status, tuner::FindingStatus::ok);
  EXPECT_EQ(findings.contains("co-running slow-down"), request.setup.devices.size() > 1);
  EXPECT_TRUE(findings.contains("clock"));
  for (const auto& [name, finding] : findings) {
    EXPECT_FALSE(finding.value.empty()) << name;
    if (finding.status != tuner::FindingStatus::ok) {
      EXPECT_FALSE(finding.remedy.empty()) << name;
    }
  }
}

}  // namespace
}  // namespace mptune::testing
