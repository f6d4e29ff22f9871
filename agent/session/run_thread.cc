#include "agent/session/run_thread.h"

#include <pthread.h>

#include <utility>

#include "agent/runner/probe_spec.h"

namespace weft {
namespace {

// The result of a probe that was not started.
v1::Result Declined(const v1::ProbeRequest& request, v1::Outcome outcome, const absl::Status& why) {
  v1::Result result;
  result.set_run_id(request.run_id());
  result.set_rank(request.rank());
  result.set_outcome(outcome);
  result.set_detail(std::string(why.message()));
  return result;
}

}  // namespace

void RunThread::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "weft-run");
    Loop();
  });
}

void RunThread::Stop() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    if (order_ != nullptr) order_->cancel.Cancel();
    cv_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void RunThread::Run(v1::ProbeRequest request) {
  MutexLock lock(mutex_);
  if (order_ != nullptr || stop_) return;
  order_ = std::make_shared<Order>();
  order_->request = std::move(request);
  taken_ = false;
  cv_.NotifyAll();
}

void RunThread::Cancel(const std::string& run_id) {
  MutexLock lock(mutex_);
  if (order_ != nullptr && order_->request.run_id() == run_id) order_->cancel.Cancel();
}

std::shared_ptr<RunThread::Order> RunThread::NextOrder() {
  MutexLock lock(mutex_);
  // An order that came just before Stop still gets its result.
  while (!stop_ && (order_ == nullptr || taken_)) cv_.Wait(mutex_);
  if (order_ == nullptr || taken_) return nullptr;
  taken_ = true;
  return order_;
}

v1::Result RunThread::Execute(Order& order) {
  const absl::StatusOr<double> rate = events_.emulated_rate();
  if (!rate.ok()) return Declined(order.request, v1::OUTCOME_FAILED, rate.status());
  order.request.set_emulated_link_bytes_per_second(*rate);
  return UsesGpu(order.request.spec()) ? ExecuteOnGpus(order) : RunProbe(order);
}

v1::Result RunThread::ExecuteOnGpus(Order& order) {
  if (idle_ == nullptr)
    return Declined(order.request, v1::OUTCOME_REFUSED,
                    absl::FailedPreconditionError("this agent does not watch GPUs"));
  IdleProof::Guard guard(*idle_);
  if (const absl::Status idle = guard.Check(order.cancel); !idle.ok())
    return Declined(order.request, OutcomeOfDecline(idle), idle);
  guard.Begin(order.cancel);
  v1::Result result = RunProbe(order);
  guard.End(&result);
  return result;
}

v1::Result RunThread::RunProbe(Order& order) {
  const std::string run_id = order.request.run_id();
  const TransportWatch transport(transport_);
  v1::Result result = runner_.Run(
      order.request, [&](std::string rendezvous) { events_.on_rendezvous(run_id, rendezvous); },
      order.cancel);
  transport.Judge(&result);
  return result;
}

void RunThread::Loop() {
  while (const std::shared_ptr<Order> order = NextOrder()) {
    v1::Result result = Execute(*order);
    bool stopping = false;
    {
      MutexLock lock(mutex_);
      stopping = stop_;
      order_ = nullptr;
    }
    if (stopping && result.outcome() != v1::OUTCOME_OK && result.outcome() != v1::OUTCOME_YIELDED) {
      result.set_outcome(v1::OUTCOME_FAILED);
      result.set_detail("agent stopped");
    }
    events_.on_result(std::move(result));
  }
}

}  // namespace weft
