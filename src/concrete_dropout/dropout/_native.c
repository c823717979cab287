/* The mask of dropout in one pass over memory, for float32 tensors on the CPU.
 *
 * Noise comes from Philox4x32-7 (Salmon et al., 2011), a generator without a state: the bits of an element are a
 * function of a key, of the number of a sample, and of the element's place. So the backward pass draws the mask of the
 * forward pass again instead of keeping it, and no result depends on how the work is cut into threads, rows or samples.
 *
 * Everything here has a counterpart in torch operations (kernels.py, streams.py), which does its work, with other
 * noise, where no C compiler was at hand when the package was installed.
 */
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Several versions of a function, of which the loader takes the one that fits the processor. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

#define LANES 16               /* counters at a time, and partial sums */
#define GROUP (4 * LANES)      /* elements of which the bits are drawn together */
#define CHUNK 4096             /* elements that pass through the first-level cache together: a multiple of GROUP */
#define ROUNDS 7               /* the fewest for which its authors found no failure in TestU01's BigCrush */
#define SERIAL_BELOW (1 << 15) /* elements that are not worth waking up a thread */

typedef struct {
    uint64_t key;
    uint64_t sample;
} Stream;

/* A soft mask, or a hard one, as a function of random bits. */
typedef struct {
    int hard;
    uint32_t threshold; /* hard: kept below, of 2^31, as soft masks keep what has a small u */
    float odds;         /* soft: exp(-logit p) */
    int exponent;       /* soft: 1 / temperature */
    float scale;        /* of what is kept */
    float p;            /* soft: drop probability */
} Law;

INLINE void philox_group(uint32_t *bits, Stream stream, uint64_t group) {
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES];
    uint32_t key0 = (uint32_t)stream.key, key1 = (uint32_t)(stream.key >> 32);
    for (int i = 0; i < LANES; i++) {
        uint64_t counter = group * LANES + i;
        a[i] = (uint32_t)counter;
        b[i] = (uint32_t)(counter >> 32);
        c[i] = (uint32_t)stream.sample;
        d[i] = (uint32_t)(stream.sample >> 32);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t left = (uint64_t)0xD2511F53u * a[i], right = (uint64_t)0xCD9E8D57u * c[i];
            a[i] = (uint32_t)(right >> 32) ^ b[i] ^ key0;
            c[i] = (uint32_t)(left >> 32) ^ d[i] ^ key1;
            b[i] = (uint32_t)right;
            d[i] = (uint32_t)left;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int i = 0; i < LANES; i++) {
        bits[i] = a[i];
        bits[LANES + i] = b[i];
        bits[2 * LANES + i] = c[i];
        bits[3 * LANES + i] = d[i];
    }
}

INLINE float power(float base, int exponent) {
    float result = 1.0f;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

/* For k = bits / 2 the uniform is u = (k + 1/2) / 2^31: never 0 or 1, and as exact near 1 as it is near 0. */
INLINE float soft(uint32_t bits, float odds, int exponent) {
    int32_t k = (int32_t)(bits >> 1);
    float below = (float)k + 0.5f, above = (float)(INT32_MAX - k) + 0.5f;
    return 1.0f - 1.0f / (1.0f + power(above / below * odds, exponent));
}

/* What is retained (1 - z) of elements first, ..., first + count - 1 of a stream; count <= CHUNK. */
INLINE void retained(float *out, Stream stream, Law law, uint64_t first, int64_t count) {
    uint32_t bits[CHUNK + 2 * GROUP];
    uint64_t group = first / GROUP;
    int64_t skip = (int64_t)(first % GROUP);
    for (int64_t done = 0; done < skip + count; done += GROUP) philox_group(bits + done, stream, group++);
    const uint32_t *wanted = bits + skip;
    if (law.hard)
        for (int64_t i = 0; i < count; i++) out[i] = (wanted[i] >> 1) < law.threshold ? 1.0f : 0.0f;
    else if (law.exponent == 10) /* the usual temperature, as a constant */
        for (int64_t i = 0; i < count; i++) out[i] = soft(wanted[i], law.odds, 10);
    else
        for (int64_t i = 0; i < count; i++) out[i] = soft(wanted[i], law.odds, law.exponent);
}

/* ------------------------------------------------------------------------------------------------ threads */

/* torch's own threads, by the functions of its OpenMP runtime: threads of another runtime would compete with them. */
static void (*run_parallel)(void (*)(void *), void *, unsigned, unsigned);
static int (*thread_number)(void);
static int (*threads_at_work)(void); /* may be fewer than were asked for */

typedef struct {
    void (*work)(void *job, int64_t first, int64_t last);
    void *job;
    int64_t pieces;
    int alone;
} Team;

static void take_part(void *pointer) {
    Team *team = pointer;
    int64_t number = team->alone ? 0 : thread_number(), threads = team->alone ? 1 : threads_at_work();
    int64_t first = team->pieces * number / threads, last = team->pieces * (number + 1) / threads;
    if (first < last) team->work(team->job, first, last);
}

static void share(void (*work)(void *, int64_t, int64_t), void *job, int64_t pieces, int64_t elements, int threads) {
    if (threads > pieces) threads = (int)pieces;
    Team team = {work, job, pieces, threads < 2 || run_parallel == NULL || elements < SERIAL_BELOW};
    if (team.alone)
        take_part(&team);
    else
        run_parallel(take_part, &team, (unsigned)threads, 0);
}

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Most of the time of a large result goes into faulting in its memory, page by page: ask for large pages, as numpy does.
 */
#define HUGE_PAGE ((uintptr_t)1 << 21)
#define HUGE_FROM (4 * HUGE_PAGE) /* bytes */

static void expect_writes(const float *out, int64_t elements) {
#ifdef MADV_HUGEPAGE
    uintptr_t start = (uintptr_t)out, end = start + sizeof(float) * (uintptr_t)elements;
    if (end - start < HUGE_FROM) return;
    start = (start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    end &= ~(HUGE_PAGE - 1);
    madvise((void *)start, end - start, MADV_HUGEPAGE); /* only advice: whether it is followed does not matter */
#endif
}

/* -------------------------------------------------------------------------------------- one value per element */

typedef struct {
    const float *x, *grad;
    float *out;
    double *sums; /* of each chunk, so that their total does not depend on the number of threads */
    uint64_t key, sample, first;
    int64_t size, chunks; /* of one sample */
    int64_t x_step;       /* from one sample's x to the next: size, or 0 where all have the same */
    const Law *laws;      /* of each sample, or of all */
    int laws_differ;
} Elementwise;

INLINE const Law *law_of(const Elementwise *job, int64_t row) { return job->laws + (job->laws_differ ? row : 0); }

/* out = x * (1 - z) * scale, or the mask itself; samples follow each other. */
FOR_EACH_PROCESSOR static void mask_chunks(void *pointer, int64_t first, int64_t last) {
    Elementwise *job = pointer;
    float keep[CHUNK];
    for (int64_t piece = first; piece < last; piece++) {
        int64_t row = piece / job->chunks, start = piece % job->chunks * CHUNK;
        int64_t count = smaller(CHUNK, job->size - start);
        Stream stream = {job->key, job->sample + (uint64_t)row};
        const Law *law = law_of(job, row);
        retained(keep, stream, *law, job->first + (uint64_t)start, count);
        float scale = law->scale, *out = job->out + row * job->size + start;
        if (job->x) {
            const float *x = job->x + row * job->x_step + start;
            for (int64_t i = 0; i < count; i++) out[i] = x[i] * (keep[i] * scale);
        } else
            for (int64_t i = 0; i < count; i++) out[i] = keep[i] * scale;
    }
}

/* Gradients: of x, grad * (1 - z) * scale; of the logit of p, the sum of that times x * (p - z / t). */
FOR_EACH_PROCESSOR static void mask_backward_chunks(void *pointer, int64_t first, int64_t last) {
    Elementwise *job = pointer;
    float keep[CHUNK];
    for (int64_t piece = first; piece < last; piece++) {
        int64_t row = piece / job->chunks, start = piece % job->chunks * CHUNK, i = 0;
        int64_t count = smaller(CHUNK, job->size - start), place = row * job->size + start;
        Stream stream = {job->key, job->sample + (uint64_t)row};
        const Law *law = law_of(job, row);
        retained(keep, stream, *law, (uint64_t)start, count);
        const float *grad = job->grad + place, *x = job->x + place;
        float *out = job->out + place, parts[LANES] = {0};
        float scale = law->scale, p = law->p, inverse = (float)law->exponent;
        for (; i + LANES <= count; i += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                float masked = grad[i + lane] * (keep[i + lane] * scale);
                out[i + lane] = masked;
                parts[lane] += masked * x[i + lane] * (p - (1.0f - keep[i + lane]) * inverse);
            }
        double sum = 0;
        for (; i < count; i++) {
            float masked = grad[i] * (keep[i] * scale);
            out[i] = masked;
            sum += masked * x[i] * (p - (1.0f - keep[i]) * inverse);
        }
        for (int lane = 0; lane < LANES; lane++) sum += parts[lane];
        job->sums[piece] = sum;
    }
}

/* -------------------------------------------------------------------------------------- one value per channel */

/* A tensor as (rows, pixels, channels) in memory: (N, H * W, C) of channels_last, else (N * C, H * W, 1). */
typedef struct {
    const float *x, *grad, *keep; /* keep: 1 - z, (rows, channels) */
    float *out;
    double *sums; /* of each row */
    int64_t rows, pixels, channels;
    Law law;
} Channelwise;

FOR_EACH_PROCESSOR static void channel_rows(void *pointer, int64_t first, int64_t last) {
    Channelwise *job = pointer;
    for (int64_t row = first; row < last; row++) {
        const float *x = job->x + row * job->pixels * job->channels, *keep = job->keep + row * job->channels;
        float *out = job->out + row * job->pixels * job->channels, scale = job->law.scale;
        if (job->channels == 1) {
            float factor = keep[0] * scale;
            for (int64_t i = 0; i < job->pixels; i++) out[i] = x[i] * factor;
            continue;
        }
        for (int64_t pixel = 0; pixel < job->pixels; pixel++, x += job->channels, out += job->channels)
            for (int64_t i = 0; i < job->channels; i++) out[i] = x[i] * (keep[i] * scale);
    }
}

FOR_EACH_PROCESSOR static void channel_backward_rows(void *pointer, int64_t first, int64_t last) {
    Channelwise *job = pointer;
    int64_t pixels = job->pixels, channels = job->channels;
    for (int64_t row = first; row < last; row++) {
        const float *grad = job->grad + row * pixels * channels, *x = job->x + row * pixels * channels;
        const float *keep = job->keep + row * channels;
        float *out = job->out + row * pixels * channels;
        float scale = job->law.scale, p = job->law.p, inverse = (float)job->law.exponent;
        double sum = 0;
        if (channels == 1) {
            float factor = keep[0] * scale;
            for (int64_t start = 0; start < pixels; start += CHUNK) {
                int64_t end = smaller(start + CHUNK, pixels), i = start;
                float parts[LANES] = {0};
                for (; i + LANES <= end; i += LANES)
                    for (int lane = 0; lane < LANES; lane++) {
                        parts[lane] += grad[i + lane] * x[i + lane];
                        out[i + lane] = grad[i + lane] * factor;
                    }
                for (; i < end; i++) {
                    sum += grad[i] * x[i];
                    out[i] = grad[i] * factor;
                }
                for (int lane = 0; lane < LANES; lane++) sum += parts[lane];
            }
            job->sums[row] = sum * factor * (p - (1.0f - keep[0]) * inverse);
            continue;
        }
        for (int64_t pixel = 0; pixel < pixels; pixel++, grad += channels, x += channels, out += channels) {
            float parts[LANES] = {0};
            int64_t i = 0;
            for (; i + LANES <= channels; i += LANES)
                for (int lane = 0; lane < LANES; lane++) {
                    float kept = keep[i + lane], masked = grad[i + lane] * (kept * scale);
                    out[i + lane] = masked;
                    parts[lane] += masked * x[i + lane] * (p - (1.0f - kept) * inverse);
                }
            for (; i < channels; i++) {
                float masked = grad[i] * (keep[i] * scale);
                out[i] = masked;
                sum += masked * x[i] * (p - (1.0f - keep[i]) * inverse);
            }
            for (int lane = 0; lane < LANES; lane++) sum += parts[lane];
        }
        job->sums[row] = sum;
    }
}

/* ------------------------------------------------------------------------------------------------- Python */

static double total(const double *sums, int64_t count) {
    double result = 0;
    for (int64_t i = 0; i < count; i++) result += sums[i];
    return result;
}

static Law soft_law(double logit, int exponent) {
    logit = logit < -80 ? -80 : logit > 80 ? 80 : logit; /* float32 holds its exponential */
    Law law = {0, 0, (float)exp(-logit), exponent, (float)(1 + exp(logit)), (float)(1 / (1 + exp(-logit)))};
    return law;
}

static Law hard_law(double p) {
    Law law = {1, (uint32_t)round((1 - p) * 2147483648.0), 0, 0, p < 1 ? (float)(1 / (1 - p)) : 0.0f, (float)p};
    return law;
}

static Elementwise elementwise(unsigned long long x, unsigned long long out, long long size, unsigned long long key) {
    Elementwise job = {0};
    job.x = (const float *)(uintptr_t)x, job.out = (float *)(uintptr_t)out;
    job.key = key, job.size = job.x_step = size, job.chunks = (size + CHUNK - 1) / CHUNK;
    return job;
}

/* Gradients by mask_backward_chunks, those of the logits into an array of as many as there are samples. */
static int run_backward(Elementwise *job, int64_t samples, int threads, double *logit_grads) {
    int64_t pieces = samples * job->chunks;
    job->sums = malloc(sizeof(double) * (size_t)(pieces ? pieces : 1));
    if (job->sums == NULL) return 0;
    Py_BEGIN_ALLOW_THREADS
    expect_writes(job->out, samples * job->size);
    share(mask_backward_chunks, job, pieces, samples * job->size, threads);
    for (int64_t row = 0; row < samples; row++) logit_grads[row] = total(job->sums + row * job->chunks, job->chunks);
    Py_END_ALLOW_THREADS
    free(job->sums);
    return 1;
}

static const char mask_doc[] =
    "mask(x, out, samples, size, first, key, sample, law, exponent, scaled, shared, threads)\n\n"
    "out = x * (1 - z) / (1 - p), (samples, size), at addresses of float32; without x (0) the mask itself, and unless\n"
    "scaled without its factor. Elements are first, first + 1, ... of the streams sample, sample + 1, ...\n"
    "All samples have an x of their own, or share one of (size).\n"
    "Soft masks have exponent = 1 / temperature and law = logit p, hard ones 0 and p.";

static PyObject *py_mask(PyObject *module, PyObject *args) {
    unsigned long long x, out, first, key, sample;
    long long samples, size;
    double value;
    int exponent, scaled, shared, threads;
    if (!PyArg_ParseTuple(args, "KKLLKKKdippi", &x, &out, &samples, &size, &first, &key, &sample, &value, &exponent,
                          &scaled, &shared, &threads))
        return NULL;
    Law law = exponent ? soft_law(value, exponent) : hard_law(value);
    if (!scaled) law.scale = 1.0f;
    Elementwise job = elementwise(x, out, size, key);
    job.sample = sample, job.first = first, job.laws = &law;
    if (shared) job.x_step = 0;
    Py_BEGIN_ALLOW_THREADS
    expect_writes(job.out, samples * size);
    share(mask_chunks, &job, samples * job.chunks, samples * size, threads);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static const char backward_doc[] =
    "mask_backward(grad, x, grad_x, size, key, logit, exponent, threads) -> gradient of the logit of p\n\n"
    "Of mask() for one sample, 0, from element 0 on; grad_x may be grad.";

static PyObject *py_mask_backward(PyObject *module, PyObject *args) {
    unsigned long long grad, x, grad_x, key;
    long long size;
    double logit, result;
    int exponent, threads;
    if (!PyArg_ParseTuple(args, "KKKLKdii", &grad, &x, &grad_x, &size, &key, &logit, &exponent, &threads)) return NULL;
    Law law = soft_law(logit, exponent);
    Elementwise job = elementwise(x, grad_x, size, key);
    job.grad = (const float *)(uintptr_t)grad, job.laws = &law;
    if (!run_backward(&job, 1, threads, &result)) return PyErr_NoMemory();
    return PyFloat_FromDouble(result);
}

static const char stack_doc[] =
    "stack(grad, x, out, logit_grads, logits, replicas, size, key, exponent, threads)\n\n"
    "With grad = 0 forward: out = x * (1 - z) / (1 - p), (replicas, size), with a logit of p (float32) for each replica.\n"
    "Else backward: out is the gradient of x, and logit_grads (float32) get those of the logits.";

static PyObject *py_stack(PyObject *module, PyObject *args) {
    unsigned long long grad, x, out, logit_grads, logits, key;
    long long replicas, size;
    int exponent, threads, done = 1;
    if (!PyArg_ParseTuple(args, "KKKKKLLKii", &grad, &x, &out, &logit_grads, &logits, &replicas, &size, &key, &exponent,
                          &threads))
        return NULL;
    Law *laws = malloc(sizeof(Law) * (size_t)(replicas ? replicas : 1));
    double *sums = malloc(sizeof(double) * (size_t)(replicas ? replicas : 1));
    if (laws == NULL || sums == NULL) {
        free(laws), free(sums);
        return PyErr_NoMemory();
    }
    for (int64_t i = 0; i < replicas; i++) laws[i] = soft_law(((const float *)(uintptr_t)logits)[i], exponent);
    Elementwise job = elementwise(x, out, size, key);
    job.grad = (const float *)(uintptr_t)grad, job.laws = laws, job.laws_differ = 1;
    if (grad) {
        done = run_backward(&job, replicas, threads, sums);
        for (int64_t i = 0; done && i < replicas; i++) ((float *)(uintptr_t)logit_grads)[i] = (float)sums[i];
    } else {
        Py_BEGIN_ALLOW_THREADS
        expect_writes(job.out, replicas * size);
        share(mask_chunks, &job, replicas * job.chunks, replicas * size, threads);
        Py_END_ALLOW_THREADS
    }
    free(laws), free(sums);
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static const char channels_doc[] =
    "channels(grad, x, keep, out, rows, pixels, channels, logit, exponent, threads) -> gradient of the logit of p\n\n"
    "With grad = 0 forward: out = x * keep / (1 - p), where x is (rows, pixels, channels) and keep, which is 1 - z,\n"
    "(rows, 1, channels). Else backward: out is the gradient of x.";

static PyObject *py_channels(PyObject *module, PyObject *args) {
    Channelwise job = {0};
    unsigned long long grad, x, keep, out;
    long long rows, pixels, channels;
    double logit, result = 0;
    int exponent, threads;
    if (!PyArg_ParseTuple(args, "KKKKLLLdii", &grad, &x, &keep, &out, &rows, &pixels, &channels, &logit, &exponent,
                          &threads))
        return NULL;
    job.grad = (const float *)(uintptr_t)grad, job.x = (const float *)(uintptr_t)x;
    job.keep = (const float *)(uintptr_t)keep, job.out = (float *)(uintptr_t)out;
    job.rows = rows, job.pixels = pixels, job.channels = channels;
    job.law = soft_law(logit, exponent);
    if (grad && (job.sums = malloc(sizeof(double) * (size_t)(rows ? rows : 1))) == NULL) return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    expect_writes(job.out, rows * pixels * channels);
    share(grad ? channel_backward_rows : channel_rows, &job, rows, rows * pixels * channels, threads);
    if (grad) result = total(job.sums, rows);
    Py_END_ALLOW_THREADS
    free(job.sums);
    return PyFloat_FromDouble(result);
}

static PyMethodDef methods[] = {
    {"mask", py_mask, METH_VARARGS, mask_doc},
    {"mask_backward", py_mask_backward, METH_VARARGS, backward_doc},
    {"stack", py_stack, METH_VARARGS, stack_doc},
    {"channels", py_channels, METH_VARARGS, channels_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "Dropout masks in one pass over memory.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    *(void **)&run_parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    *(void **)&thread_number = dlsym(RTLD_DEFAULT, "omp_get_thread_num");
    *(void **)&threads_at_work = dlsym(RTLD_DEFAULT, "omp_get_num_threads");
    if (thread_number == NULL || threads_at_work == NULL) run_parallel = NULL;
    return PyModule_Create(&definition);
}
