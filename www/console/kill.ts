/** Gets at the Web Worker that the store starts, to be able to end it in the middle. Nothing but a demonstration needs this. */
export interface WorkerWatch {
  /** Terminates the store's worker, with whatever it is doing. False if none is running. */
  kill(): boolean;
}

/** To be called before the store opens. */
export function watchWorkers(): WorkerWatch {
  const running = new Set<Worker>();
  window.Worker = class extends Worker {
    constructor(url: string | URL, options?: WorkerOptions) {
      super(url, options);
      running.add(this);
    }
    override terminate() {
      running.delete(this);
      super.terminate();
    }
  };
  return {
    kill() {
      const victims = [...running];
      for (const worker of victims) worker.terminate();
      return victims.length > 0;
    },
  };
}
